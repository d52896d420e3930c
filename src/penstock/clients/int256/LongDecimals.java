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
 * A number is bytes whose order, byte by byte, is that of the numbers, whatever their scales: Spark compares them
 * itself, and equal numbers are equal bytes. Zero is 80. A positive number is C0, its exponent in two bytes with 8000
 * added, and its digits in pairs: each byte is one more than its pair. The number is 0.DIGITS times ten to the
 * exponent, without zeros at either end. A negative one is 40, the same bytes inverted, and FF. A null gives null. A
 * number that does not fit is an error with a SQLSTATE for data exceptions, which marks it as an error of one row.
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
    static final int DIV = 4;
    static final int NEG = 5;
    static final int ABS = 6;
    static final int MAKE = 7;
    static final int CAST = 8;
    static final int TEXT = 9;
    static final int WHOLE = 10;
    static final int BYTES = 11;
    static final int FROM_BYTES = 12;

    private LongDecimals() {}

    public static void register(SparkSession session) {
        UDFRegistration functions = session.udf();
        String[] words = {"add", "sub", "mul", "mod"};
        for (int operator = ADD; operator <= MOD; operator++) {
            functions.register("penstock_dec_" + words[operator], (UDF2) new Function(operator), DataTypes.BinaryType);
        }
        functions.register("penstock_dec_div", (UDF3) new Function(DIV), DataTypes.BinaryType);
        functions.register("penstock_dec_neg", (UDF1) new Function(NEG), DataTypes.BinaryType);
        functions.register("penstock_dec_abs", (UDF1) new Function(ABS), DataTypes.BinaryType);
        functions.register("penstock_to_dec", (UDF1) new Function(MAKE), DataTypes.BinaryType);
        functions.register("penstock_dec_cast", (UDF3) new Function(CAST), DataTypes.BinaryType);
        functions.register("penstock_dec_text", (UDF2) new Function(TEXT), DataTypes.StringType);
        functions.register("penstock_dec_whole", (UDF1) new Function(WHOLE), DataTypes.StringType);
        functions.register("penstock_dec_bytes", (UDF2) new Function(BYTES), DataTypes.BinaryType);
        functions.register("penstock_dec_from_bytes", (UDF2) new Function(FROM_BYTES), DataTypes.BinaryType);
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

    /** The functions over long decimals. A null as the first value, or as the second one of an operator, gives null. */
    public static final class Function implements UDF1, UDF2, UDF3 {
        private final int which;

        Function(int which) {
            this.which = which;
        }

        public Object call(Object value) {
            if (value == null) {
                return null;
            }
            switch (which) {
                case NEG:
                    return encoded(decoded(value).negate());
                case ABS:
                    return encoded(decoded(value).abs());
                case WHOLE:
                    return decoded(value).toBigInteger().toString();
                default:
                    return encoded(exact(value));
            }
        }

        public Object call(Object value, Object other) {
            if (value == null || (which <= MOD && other == null)) {
                return null;
            }
            switch (which) {
                case ADD:
                    return encoded(decoded(value).add(decoded(other)));
                case SUB:
                    return encoded(decoded(value).subtract(decoded(other)));
                case MUL:
                    return encoded(decoded(value).multiply(decoded(other)));
                case MOD:
                    return encoded(decoded(value).remainder(divisor(value, "%", other)));
                case TEXT:
                    return scaled(value, other).toPlainString();
                case BYTES:
                    return scaled(value, other).unscaledValue().toByteArray();
                default:
                    return encoded(new BigDecimal(Numbers.unscaled(value), ((Integer) other).intValue()));
            }
        }

        /** Divides to a scale, rounding half up, or casts a number to a precision and a scale. */
        public Object call(Object value, Object other, Object scale) {
            if (value == null || (which == DIV && other == null)) {
                return null;
            }
            int behind = ((Integer) scale).intValue();
            if (which == DIV) {
                return encoded(decoded(value).divide(divisor(value, "/", other), behind, RoundingMode.HALF_UP));
            }
            int digits = ((Integer) other).intValue();
            BigDecimal found = decoded(value).setScale(behind, RoundingMode.HALF_UP);
            if (found.precision() > digits) {
                String kind = "DECIMAL(" + digits + ", " + behind + ")";
                throw Numbers.wrong(Numbers.shown(found.toPlainString()) + " does not fit into " + kind, "22003");
            }
            return encoded(found);
        }
    }

    private static BigDecimal divisor(Object value, String sign, Object other) {
        BigDecimal found = decoded(other);
        if (found.signum() == 0) {
            throw Numbers.divisionByZero(decoded(value).toPlainString(), sign);
        }
        return found;
    }

    /** Converts a string, an integer or a decimal to its exact value. */
    private static BigDecimal exact(Object value) {
        if (value instanceof String) {
            return parsed((String) value);
        }
        if (value instanceof BigDecimal) {
            return (BigDecimal) value;
        }
        if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
            return BigDecimal.valueOf(((Number) value).longValue());
        }
        throw new IllegalArgumentException("a DECIMAL cannot be made of " + value.getClass().getSimpleName());
    }

    static BigDecimal scaled(Object value, Object scale) {
        BigDecimal found = decoded(value);
        try {
            return found.setScale(((Integer) scale).intValue());
        } catch (ArithmeticException inexact) {
            throw Numbers.wrong(Numbers.shown(found.toPlainString()) + " has more than " + scale + " digits after the decimal point", "22003");
        }
    }
}
