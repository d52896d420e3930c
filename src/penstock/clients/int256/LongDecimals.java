package penstock;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.UDFRegistration;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.types.DataTypes;

/**
 * Decimals of up to 1000 digits, as functions of a Spark session.
 *
 * A number is bytes whose order, byte by byte, is that of the numbers, whatever their scales: Spark compares them itself, and
 * equal numbers are equal bytes. Zero is 80. A positive number is C0, its exponent in two bytes with 8000 added, and its
 * digits in pairs, one more than each pair in a byte. It is 0.DIGITS times ten to the exponent, without zeros at either end.
 * A negative one is 40, the same bytes inverted, and FF. A null makes a null. What does not fit is an error whose text has a
 * state of SQL for data exceptions, so that it is known to be about one row.
 */
public final class LongDecimals {
    static final int MOST_DIGITS = 1000;
    static final int BIAS = 0x8000;
    static final byte NEGATIVE = (byte) 0x40;
    static final byte ZERO = (byte) 0x80;
    static final byte POSITIVE = (byte) 0xC0;

    static final int ADD = 0;
    static final int SUB = 1;
    static final int MUL = 2;
    static final int MOD = 3;

    private LongDecimals() {}

    public static void register(SparkSession session) {
        UDFRegistration functions = session.udf();
        String[] words = {"add", "sub", "mul", "mod"};
        for (int operator = ADD; operator <= MOD; operator++) {
            functions.register("penstock_dec_" + words[operator], (UDF2) new Arithmetic(operator), DataTypes.BinaryType);
        }
        functions.register("penstock_dec_div", (UDF3) new Division(), DataTypes.BinaryType);
        functions.register("penstock_dec_neg", (UDF1) new Sign(false), DataTypes.BinaryType);
        functions.register("penstock_dec_abs", (UDF1) new Sign(true), DataTypes.BinaryType);
        functions.register("penstock_to_dec", (UDF1) new Made(), DataTypes.BinaryType);
        functions.register("penstock_dec_cast", (UDF3) new Rounded(), DataTypes.BinaryType);
        functions.register("penstock_dec_text", (UDF2) new Text(), DataTypes.StringType);
        functions.register("penstock_dec_whole", (UDF1) new Whole(), DataTypes.StringType);
        functions.register("penstock_dec_bytes", (UDF2) new TwosComplement(), DataTypes.BinaryType);
        functions.register("penstock_dec_from_bytes", (UDF2) new FromTwosComplement(), DataTypes.BinaryType);
    }

    static BigDecimal decoded(Object value) {
        byte[] bytes = (byte[]) value;
        if (bytes[0] == ZERO) {
            return BigDecimal.ZERO;
        }
        boolean negative = bytes[0] == NEGATIVE;
        int mask = negative ? 0xFF : 0;
        int end = negative ? bytes.length - 1 : bytes.length;
        int exponent = (((bytes[1] & 0xFF) ^ mask) << 8 | ((bytes[2] & 0xFF) ^ mask)) - BIAS;
        StringBuilder digits = new StringBuilder(2 * end);
        for (int place = 3; place < end; place++) {
            int pair = ((bytes[place] & 0xFF) ^ mask) - 1;
            digits.append((char) ('0' + pair / 10)).append((char) ('0' + pair % 10));
        }
        BigDecimal found = new BigDecimal(new BigInteger(digits.toString()), digits.length() - exponent);
        return negative ? found.negate() : found;
    }

    static byte[] encoded(BigDecimal value) {
        if (value.signum() == 0) {
            return new byte[] {ZERO};
        }
        BigDecimal plain = value.abs().stripTrailingZeros();
        int exponent = plain.precision() - plain.scale();
        int digits = plain.scale() > 0 ? Math.max(plain.precision(), plain.scale()) : exponent;
        if (digits > MOST_DIGITS) {
            throw Numbers.wrong(Numbers.shown(value.toString()) + " has more than " + MOST_DIGITS + " digits", "22003");
        }
        String text = plain.unscaledValue().toString();
        boolean negative = value.signum() < 0;
        int pairs = (text.length() + 1) / 2;
        byte[] found = new byte[3 + pairs + (negative ? 1 : 0)];
        int mask = negative ? 0xFF : 0;
        found[0] = negative ? NEGATIVE : POSITIVE;
        found[1] = (byte) (((exponent + BIAS) >> 8) ^ mask);
        found[2] = (byte) ((exponent + BIAS) ^ mask);
        for (int pair = 0; pair < pairs; pair++) {
            int first = text.charAt(2 * pair) - '0';
            int second = 2 * pair + 1 < text.length() ? text.charAt(2 * pair + 1) - '0' : 0;
            found[3 + pair] = (byte) ((10 * first + second + 1) ^ mask);
        }
        if (negative) {
            found[found.length - 1] = (byte) 0xFF;
        }
        return found;
    }

    static BigDecimal parsed(String text) {
        int length = text.length();
        int begin = length > 0 && (text.charAt(0) == '-' || text.charAt(0) == '+') ? 1 : 0;
        int points = 0;
        int digits = 0;
        for (int place = begin; place < length; place++) {
            char letter = text.charAt(place);
            if (letter == '.') {
                points++;
            } else if (letter >= '0' && letter <= '9') {
                digits++;
            } else {
                points = 2;
            }
        }
        if (digits == 0 || points > 1) {
            throw Numbers.wrong("'" + Numbers.shown(text) + "' is no number", "22018");
        }
        if (digits > 4 * MOST_DIGITS) {
            throw Numbers.wrong(Numbers.shown(text) + " has more than " + MOST_DIGITS + " digits", "22003");
        }
        return new BigDecimal(text);
    }

    public static final class Arithmetic implements UDF2 {
        private final int operator;

        Arithmetic(int operator) {
            this.operator = operator;
        }

        public Object call(Object left, Object right) {
            if (left == null || right == null) {
                return null;
            }
            BigDecimal one = decoded(left);
            BigDecimal other = decoded(right);
            switch (operator) {
                case ADD:
                    return encoded(one.add(other));
                case SUB:
                    return encoded(one.subtract(other));
                case MUL:
                    return encoded(one.multiply(other));
                default:
                    if (other.signum() == 0) {
                        throw Numbers.divisionByZero(one.toPlainString(), "%");
                    }
                    return encoded(one.remainder(other));
            }
        }
    }

    /** A quotient with so many digits behind the point, the last of them rounded half up. */
    public static final class Division implements UDF3 {
        public Object call(Object left, Object right, Object scale) {
            if (left == null || right == null) {
                return null;
            }
            BigDecimal one = decoded(left);
            BigDecimal other = decoded(right);
            if (other.signum() == 0) {
                throw Numbers.divisionByZero(one.toPlainString(), "/");
            }
            return encoded(one.divide(other, ((Integer) scale).intValue(), RoundingMode.HALF_UP));
        }
    }

    /** The other sign, or none. */
    public static final class Sign implements UDF1 {
        private final boolean absolute;

        Sign(boolean absolute) {
            this.absolute = absolute;
        }

        public Object call(Object value) {
            if (value == null) {
                return null;
            }
            BigDecimal found = decoded(value);
            return encoded(absolute ? found.abs() : found.negate());
        }
    }

    /** A number of anything that is one exactly: texts, integers and decimals. */
    public static final class Made implements UDF1 {
        public Object call(Object value) {
            if (value == null) {
                return null;
            }
            if (value instanceof String) {
                return encoded(parsed((String) value));
            }
            if (value instanceof BigDecimal) {
                return encoded((BigDecimal) value);
            }
            if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
                return encoded(BigDecimal.valueOf(((Number) value).longValue()));
            }
            throw new IllegalArgumentException("a DECIMAL cannot be made of " + value.getClass().getSimpleName());
        }
    }

    /** A number with no more digits than these, all and behind the point, as CAST has it. */
    public static final class Rounded implements UDF3 {
        public Object call(Object value, Object precision, Object scale) {
            if (value == null) {
                return null;
            }
            int digits = ((Integer) precision).intValue();
            int behind = ((Integer) scale).intValue();
            BigDecimal found = decoded(value).setScale(behind, RoundingMode.HALF_UP);
            if (found.precision() > digits) {
                String kind = "DECIMAL(" + digits + ", " + behind + ")";
                throw Numbers.wrong(Numbers.shown(found.toPlainString()) + " does not fit into " + kind, "22003");
            }
            return encoded(found);
        }
    }

    static BigDecimal scaled(Object value, Object scale) {
        BigDecimal found = decoded(value);
        try {
            return found.setScale(((Integer) scale).intValue());
        } catch (ArithmeticException inexact) {
            throw Numbers.wrong(Numbers.shown(found.toPlainString()) + " has more than " + scale + " digits behind the point", "22003");
        }
    }

    public static final class Text implements UDF2 {
        public Object call(Object value, Object scale) {
            return value == null ? null : scaled(value, scale).toPlainString();
        }
    }

    /** What stands before the point. */
    public static final class Whole implements UDF1 {
        public Object call(Object value) {
            return value == null ? null : decoded(value).toBigInteger().toString();
        }
    }

    /** The unscaled value, as a decimal of Avro has it. */
    public static final class TwosComplement implements UDF2 {
        public Object call(Object value, Object scale) {
            return value == null ? null : scaled(value, scale).unscaledValue().toByteArray();
        }
    }

    public static final class FromTwosComplement implements UDF2 {
        public Object call(Object value, Object scale) {
            if (value == null) {
                return null;
            }
            return encoded(new BigDecimal(Numbers.unscaled(value), ((Integer) scale).intValue()));
        }
    }
}
