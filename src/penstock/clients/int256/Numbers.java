package penstock;

import java.math.BigInteger;

/** What the functions over 256-bit integers and over long decimals share: errors and two's complement. */
final class Numbers {
    static final int LONGEST_TEXT = 100;

    private Numbers() {}

    /** An error with a SQLSTATE for data exceptions, so that it is known to be about one row. */
    static RuntimeException wrong(String why, String state) {
        return new ArithmeticException("[WIDE_NUMBER] " + why + ". SQLSTATE: " + state);
    }

    static RuntimeException divisionByZero(String left, String sign) {
        return wrong(shown(left) + " " + sign + " 0: a division by zero", "22012");
    }

    static String shown(String text) {
        return text.length() <= LONGEST_TEXT ? text : text.substring(0, LONGEST_TEXT) + "…";
    }

    /** The number that bytes in two's complement are. No bytes are zero. */
    static BigInteger unscaled(Object value) {
        byte[] bytes = (byte[]) value;
        return bytes.length == 0 ? BigInteger.ZERO : new BigInteger(bytes);
    }
}
