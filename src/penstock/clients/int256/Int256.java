package penstock;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.UDFRegistration;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Whole numbers of 256 bits, as functions of a Spark session.
 *
 * A number is 32 bytes whose order, byte by byte, is that of the numbers: Spark compares them itself. Unsigned ones are
 * big-endian; signed ones have 2^255 added. A null makes a null. What does not fit is an error whose text has a state of
 * SQL for data exceptions, so that it is known to be about one row.
 */
public final class Int256 {
    static final int WIDTH = 32;
    static final BigInteger HALF = BigInteger.ONE.shiftLeft(255);
    static final BigInteger MOST_LONG = BigInteger.valueOf(Long.MAX_VALUE);
    static final BigInteger LEAST_LONG = BigInteger.valueOf(Long.MIN_VALUE);

    static final int ADD = 0;
    static final int SUB = 1;
    static final int MUL = 2;
    static final int DIV = 3;
    static final int MOD = 4;
    static final String[] SIGNS = {"+", "-", "*", "/", "%"};

    private Int256() {}

    public static void register(SparkSession session) {
        UDFRegistration functions = session.udf();
        String[] words = {"add", "sub", "mul", "div", "mod"};
        for (int operator = ADD; operator <= MOD; operator++) {
            register(functions, "penstock_u256_" + words[operator], new Arithmetic(operator, false));
            register(functions, "penstock_i256_" + words[operator], new Arithmetic(operator, true));
        }
        register(functions, "penstock_i256_neg", new Sign(false), DataTypes.BinaryType);
        register(functions, "penstock_i256_abs", new Sign(true), DataTypes.BinaryType);
        register(functions, "penstock_to_u256", new Made(false), DataTypes.BinaryType);
        register(functions, "penstock_to_i256", new Made(true), DataTypes.BinaryType);
        register(functions, "penstock_u256_as_i256", new Turned(false), DataTypes.BinaryType);
        register(functions, "penstock_i256_as_u256", new Turned(true), DataTypes.BinaryType);
        register(functions, "penstock_u256_text", new Text(false), DataTypes.StringType);
        register(functions, "penstock_i256_text", new Text(true), DataTypes.StringType);
        register(functions, "penstock_u256_long", new Narrow(false), DataTypes.LongType);
        register(functions, "penstock_i256_long", new Narrow(true), DataTypes.LongType);
        register(functions, "penstock_u256_bytes", new TwosComplement(false), DataTypes.BinaryType);
        register(functions, "penstock_i256_bytes", new TwosComplement(true), DataTypes.BinaryType);
        register(functions, "penstock_u256_from_bytes", new FromTwosComplement(false), DataTypes.BinaryType);
        register(functions, "penstock_i256_from_bytes", new FromTwosComplement(true), DataTypes.BinaryType);
        functions.register("penstock_decimal_text", (UDF2) new DecimalText(), DataTypes.StringType);
    }

    private static void register(UDFRegistration functions, String name, UDF1 function, DataType answer) {
        functions.register(name, function, answer);
    }

    private static void register(UDFRegistration functions, String name, UDF2 function) {
        functions.register(name, function, DataTypes.BinaryType);
    }

    static String name(boolean signed) {
        return signed ? "INT256" : "UINT256";
    }

    static BigInteger decoded(Object value, boolean signed) {
        BigInteger whole = new BigInteger(1, (byte[]) value);
        return signed ? whole.subtract(HALF) : whole;
    }

    static boolean fits(BigInteger value, boolean signed) {
        return signed ? value.bitLength() < 256 : value.signum() >= 0 && value.bitLength() <= 256;
    }

    /** The bytes of a number that fits. */
    static byte[] encoded(BigInteger value, boolean signed) {
        byte[] found = (signed ? value.add(HALF) : value).toByteArray();
        if (found.length == WIDTH) {
            return found;
        }
        byte[] padded = new byte[WIDTH];
        int skipped = found.length > WIDTH ? 1 : 0;
        System.arraycopy(found, skipped, padded, WIDTH - found.length + skipped, found.length - skipped);
        return padded;
    }

    static byte[] checked(BigInteger value, boolean signed) {
        if (!fits(value, signed)) {
            throw Numbers.wrong(Numbers.shown(value.toString()) + " does not fit into " + name(signed), "22003");
        }
        return encoded(value, signed);
    }

    static BigInteger parsed(String text, boolean signed) {
        int length = text.length();
        int begin = length > 0 && (text.charAt(0) == '-' || text.charAt(0) == '+') ? 1 : 0;
        boolean sound = length > begin;
        for (int place = begin; sound && place < length; place++) {
            char letter = text.charAt(place);
            sound = letter >= '0' && letter <= '9';
        }
        if (!sound) {
            throw Numbers.wrong("'" + Numbers.shown(text) + "' is no whole number", "22018");
        }
        while (length - begin > 1 && text.charAt(begin) == '0') {
            begin++;
        }
        if (length - begin > 78) {
            throw Numbers.wrong(Numbers.shown(text) + " does not fit into " + name(signed), "22003");
        }
        BigInteger found = new BigInteger(text.substring(begin));
        return text.charAt(0) == '-' ? found.negate() : found;
    }

    public static final class Arithmetic implements UDF2 {
        private final int operator;
        private final boolean signed;

        Arithmetic(int operator, boolean signed) {
            this.operator = operator;
            this.signed = signed;
        }

        public Object call(Object left, Object right) {
            if (left == null || right == null) {
                return null;
            }
            BigInteger one = decoded(left, signed);
            BigInteger other = decoded(right, signed);
            if (operator >= DIV && other.signum() == 0) {
                throw Numbers.divisionByZero(one.toString(), SIGNS[operator]);
            }
            BigInteger found = computed(one, other);
            if (!fits(found, signed)) {
                throw Numbers.wrong(
                    one + " " + SIGNS[operator] + " " + other + " does not fit into " + name(signed), "22003");
            }
            return encoded(found, signed);
        }

        private BigInteger computed(BigInteger one, BigInteger other) {
            switch (operator) {
                case ADD:
                    return one.add(other);
                case SUB:
                    return one.subtract(other);
                case MUL:
                    return one.multiply(other);
                case DIV:
                    return one.divide(other);
                default:
                    return one.remainder(other);
            }
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
            BigInteger found = decoded(value, true);
            return checked(absolute ? found.abs() : found.negate(), true);
        }
    }

    /** A number of anything that is a whole one: texts, integers, decimals, and big-endian bytes. */
    public static final class Made implements UDF1 {
        private final boolean signed;

        Made(boolean signed) {
            this.signed = signed;
        }

        public Object call(Object value) {
            if (value == null) {
                return null;
            }
            return checked(whole(value), signed);
        }

        private BigInteger whole(Object value) {
            if (value instanceof String) {
                return parsed((String) value, signed);
            }
            if (value instanceof byte[]) {
                byte[] bytes = (byte[]) value;
                if (bytes.length > WIDTH) {
                    throw Numbers.wrong(bytes.length + " bytes do not fit into " + name(signed), "22003");
                }
                return signed ? Numbers.unscaled(bytes) : new BigInteger(1, bytes);
            }
            if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
                return BigInteger.valueOf(((Number) value).longValue());
            }
            if (value instanceof BigDecimal) {
                try {
                    return ((BigDecimal) value).toBigIntegerExact();
                } catch (ArithmeticException inexact) {
                    throw Numbers.wrong(value + " is no whole number", "22018");
                }
            }
            throw new IllegalArgumentException(
                "a " + name(signed) + " cannot be made of " + value.getClass().getSimpleName());
        }
    }

    /** A number of one kind as one of the other. */
    public static final class Turned implements UDF1 {
        private final boolean signed;

        Turned(boolean signed) {
            this.signed = signed;
        }

        public Object call(Object value) {
            return value == null ? null : checked(decoded(value, signed), !signed);
        }
    }

    public static final class Text implements UDF1 {
        private final boolean signed;

        Text(boolean signed) {
            this.signed = signed;
        }

        public Object call(Object value) {
            return value == null ? null : decoded(value, signed).toString();
        }
    }

    public static final class Narrow implements UDF1 {
        private final boolean signed;

        Narrow(boolean signed) {
            this.signed = signed;
        }

        public Object call(Object value) {
            if (value == null) {
                return null;
            }
            BigInteger found = decoded(value, signed);
            if (found.compareTo(MOST_LONG) > 0 || found.compareTo(LEAST_LONG) < 0) {
                throw Numbers.wrong(found + " does not fit into BIGINT", "22003");
            }
            return Long.valueOf(found.longValue());
        }
    }

    /** A number as a decimal of Avro has it. */
    public static final class TwosComplement implements UDF1 {
        private final boolean signed;

        TwosComplement(boolean signed) {
            this.signed = signed;
        }

        public Object call(Object value) {
            return value == null ? null : decoded(value, signed).toByteArray();
        }
    }

    public static final class FromTwosComplement implements UDF1 {
        private final boolean signed;

        FromTwosComplement(boolean signed) {
            this.signed = signed;
        }

        public Object call(Object value) {
            if (value == null) {
                return null;
            }
            return checked(Numbers.unscaled(value), signed);
        }
    }

    /** The unscaled value of a decimal, in two's complement, and its scale, as text. */
    public static final class DecimalText implements UDF2 {
        public Object call(Object value, Object scale) {
            if (value == null) {
                return null;
            }
            return new BigDecimal(Numbers.unscaled(value), ((Integer) scale).intValue()).toPlainString();
        }
    }
}
