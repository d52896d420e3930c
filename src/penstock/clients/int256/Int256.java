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
 * Integers of 256 bits, as functions of a Spark session.
 *
 * A number is 32 bytes whose order, byte by byte, is that of the numbers: Spark compares them itself. Unsigned numbers
 * are big-endian; signed ones have 2^255 added. A null gives null. A number that does not fit is an error with a
 * SQLSTATE for data exceptions, which marks it as an error of one row.
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
    static final int NEG = 5;
    static final int ABS = 6;
    static final int MAKE = 7;
    static final int OTHER_SIGN = 8;
    static final int TEXT = 9;
    static final int NARROW = 10;
    static final int BYTES = 11;
    static final int FROM_BYTES = 12;
    static final String[] SIGNS = {"+", "-", "*", "/", "%"};

    private Int256() {}

    public static void register(SparkSession session) {
        UDFRegistration functions = session.udf();
        String[] words = {"add", "sub", "mul", "div", "mod"};
        register(functions, "penstock_i256_neg", NEG, true, DataTypes.BinaryType);
        register(functions, "penstock_i256_abs", ABS, true, DataTypes.BinaryType);
        register(functions, "penstock_u256_as_i256", OTHER_SIGN, false, DataTypes.BinaryType);
        register(functions, "penstock_i256_as_u256", OTHER_SIGN, true, DataTypes.BinaryType);
        for (int place = 0; place < 2; place++) {
            boolean signed = place == 1;
            String type = signed ? "i256" : "u256";
            register(functions, "penstock_to_" + type, MAKE, signed, DataTypes.BinaryType);
            register(functions, "penstock_" + type + "_text", TEXT, signed, DataTypes.StringType);
            register(functions, "penstock_" + type + "_long", NARROW, signed, DataTypes.LongType);
            register(functions, "penstock_" + type + "_bytes", BYTES, signed, DataTypes.BinaryType);
            register(functions, "penstock_" + type + "_from_bytes", FROM_BYTES, signed, DataTypes.BinaryType);
            for (int operator = ADD; operator <= MOD; operator++) {
                UDF2 function = new Arithmetic(operator, signed);
                functions.register("penstock_" + type + "_" + words[operator], function, DataTypes.BinaryType);
            }
        }
        functions.register("penstock_decimal_text", (UDF2) new DecimalText(), DataTypes.StringType);
    }

    private static void register(UDFRegistration functions, String name, int which, boolean signed, DataType answer) {
        functions.register(name, (UDF1) new Conversion(which, signed), answer);
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

    /** Encodes a number that fits. */
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

    /** The functions over a single value. */
    public static final class Conversion implements UDF1 {
        private final int which;
        private final boolean signed;

        Conversion(int which, boolean signed) {
            this.which = which;
            this.signed = signed;
        }

        public Object call(Object value) {
            if (value == null) {
                return null;
            }
            switch (which) {
                case NEG:
                    return checked(decoded(value, signed).negate(), signed);
                case ABS:
                    return checked(decoded(value, signed).abs(), signed);
                case MAKE:
                    return checked(whole(value, signed), signed);
                case OTHER_SIGN:
                    return checked(decoded(value, signed), !signed);
                case TEXT:
                    return decoded(value, signed).toString();
                case NARROW:
                    return narrow(decoded(value, signed));
                case BYTES:
                    return decoded(value, signed).toByteArray();
                default:
                    return checked(Numbers.unscaled(value), signed);
            }
        }
    }

    private static Long narrow(BigInteger value) {
        if (value.compareTo(MOST_LONG) > 0 || value.compareTo(LEAST_LONG) < 0) {
            throw Numbers.wrong(value + " does not fit into BIGINT", "22003");
        }
        return Long.valueOf(value.longValue());
    }

    /** Converts a string, an integer, a decimal or big-endian bytes to an integer. */
    private static BigInteger whole(Object value, boolean signed) {
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

    /** Renders a decimal as text, from its unscaled value in two's complement and its scale. */
    public static final class DecimalText implements UDF2 {
        public Object call(Object value, Object scale) {
            if (value == null) {
                return null;
            }
            return new BigDecimal(Numbers.unscaled(value), ((Integer) scale).intValue()).toPlainString();
        }
    }
}
