package penstock;

import java.math.BigInteger;

/** Errors and two's complement for the functions over 256-bit integers and long decimals. */
final class Numbers {
    static final int LONGEST_TEXT = 100;

    private Numbers() {}

    /** Returns an error with a SQLSTATE for data exceptions, which marks it as an error of one row. */
    static RuntimeException wrong(String why, String state) {
        return new ArithmeticException("[WIDE_NUMBER] " + why + ". SQLSTATE: " + state);
    }

    static RuntimeException divisionByZero(String left, String sign) {
        return wrong(shown(left) + " " + sign + " 0: a division by zero", "22012");
    }

    static String shown(String text) {
        return text.length() <= LONGEST_TEXT ? text : text.substring(0, LONGEST_TEXT) + "…";
    }

    /** Reads a number from bytes in two's complement. An empty array is zero. */
    static BigInteger unscaled(Object value) {
        byte[] bytes = (byte[]) value;
        return bytes.length == 0 ? BigInteger.ZERO : new BigInteger(bytes);
    }
}
