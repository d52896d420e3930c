package penstock;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.UDFRegistration;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.api.java.UDF4;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Functions over texts and bytes that return null where those of Spark fail, as functions of a Spark session.
 *
 * The remaining errors have a SQLSTATE for data exceptions, which marks them as errors of one row.
 */
public final class RowTexts {
    static final int EXTRACT = 0;
    static final int EXTRACT_ALL = 1;
    static final int COUNT = 2;
    static final int PLACE = 3;
    static final int REPLACE = 4;
    static final int MATCH = 5;
    static final int INSTR = 6;
    static final int CONV_BASE = 7;
    static final int URL_DECODE = 8;
    static final int HEX_TO_BYTE = 9;
    static final int FROM_BASE58 = 10;
    static final int REVERSE_BYTES = 11;
    static final int DECIMAL = 12;

    private RowTexts() {}

    public static void register(SparkSession session) {
        UDFRegistration functions = session.udf();
        DataType text = DataTypes.StringType;
        DataType texts = DataTypes.createArrayType(text);
        functions.register("penstock_row_regexp_extract", (UDF3) new Function(EXTRACT), text);
        functions.register("penstock_row_regexp_extract_all", (UDF3) new Function(EXTRACT_ALL), texts);
        functions.register("penstock_row_regexp_count", (UDF2) new Function(COUNT), DataTypes.LongType);
        functions.register("penstock_row_regexp_instr", (UDF4) new Function(PLACE), DataTypes.LongType);
        functions.register("penstock_row_regexp_replace", (UDF3) new Function(REPLACE), text);
        functions.register("penstock_row_regexp_match", (UDF2) new Function(MATCH), texts);
        functions.register("penstock_row_instr", (UDF4) new Function(INSTR), DataTypes.LongType);
        functions.register("penstock_row_conv_base", (UDF3) new Function(CONV_BASE), text);
        functions.register("penstock_row_url_decode", (UDF1) new Function(URL_DECODE), text);
        functions.register("penstock_row_hex_to_byte", (UDF1) new Function(HEX_TO_BYTE), DataTypes.BinaryType);
        functions.register("penstock_row_from_base58", (UDF1) new Function(FROM_BASE58), DataTypes.BinaryType);
        functions.register("penstock_row_reverse_bytes", (UDF1) new Function(REVERSE_BYTES), DataTypes.BinaryType);
        functions.register("penstock_row_decimal", (UDF3) new Function(DECIMAL), text);
    }

    static RuntimeException wrong(String why, String state) {
        return new IllegalArgumentException("[ROW_FUNCTION] " + why + ". SQLSTATE: " + state);
    }

    /** The functions over texts and bytes. Integers are passed as BIGINT. */
    public static final class Function implements UDF1, UDF2, UDF3, UDF4 {
        private final int which;
        private transient String lastText;
        private transient Pattern lastPattern;

        Function(int which) {
            this.which = which;
        }

        public Object call(Object a) {
            switch (which) {
                case URL_DECODE:
                    return a == null ? null : decoded((String) a);
                case HEX_TO_BYTE:
                    return a == null ? new byte[0] : bytes((String) a);
                case FROM_BASE58:
                    return a == null ? new byte[0] : fromBase58((String) a);
                default:
                    return a == null ? null : reversed((byte[]) a);
            }
        }

        public Object call(Object a, Object b) {
            Pattern pattern = pattern(b);
            if (a == null || pattern == null) {
                return null;
            }
            Matcher found = pattern.matcher((String) a);
            if (which == MATCH) {
                return found.find() ? groups(found) : null;
            }
            long count = 0;
            while (found.find()) {
                count++;
            }
            return Long.valueOf(count);
        }

        public Object call(Object a, Object b, Object c) {
            if (which == CONV_BASE) {
                return a == null || b == null || c == null ? null : converted((String) a, (String) b, (String) c);
            }
            if (which == DECIMAL) {
                return a == null ? null : decimal((String) a, ((Long) b).intValue(), ((Long) c).intValue());
            }
            Pattern pattern = pattern(b);
            if (a == null || pattern == null || (which == REPLACE && c == null)) {
                return null;
            }
            Matcher found = pattern.matcher((String) a);
            if (which == REPLACE) {
                return found.replaceAll(Matcher.quoteReplacement((String) c));
            }
            long group = c == null ? which : ((Long) c).longValue();
            if (group < 0 || group > found.groupCount()) {
                return null;
            }
            if (which == EXTRACT) {
                return found.find() ? found.group((int) group) : null;
            }
            ArrayList all = new ArrayList();
            while (found.find()) {
                all.add(found.group((int) group));
            }
            return all.toArray(new String[0]);
        }

        public Object call(Object a, Object b, Object c, Object d) {
            if (a == null || b == null || c == null || d == null) {
                return null;
            }
            long start = ((Long) c).longValue();
            long occurrence = ((Long) d).longValue();
            if (which == INSTR) {
                return instr((String) a, (String) b, start, occurrence);
            }
            if (start < 1 || occurrence < 1) {
                throw wrong("regexp_instr counts from 1", "22023");
            }
            String text = (String) a;
            Pattern pattern = pattern(b);
            if (pattern == null) {
                return null;
            }
            long length = text.codePointCount(0, text.length());
            if (start > length + 1) {
                return Long.valueOf(0);
            }
            Matcher found = pattern.matcher(text);
            int from = text.offsetByCodePoints(0, (int) (start - 1));
            if (!found.find(from)) {
                return Long.valueOf(0);
            }
            for (long seen = 1; seen < occurrence; seen++) {
                if (!found.find()) {
                    return Long.valueOf(0);
                }
            }
            return Long.valueOf(text.codePointCount(0, found.start()) + 1);
        }

        /** Compiles a pattern; null if it is invalid. The last one is cached. */
        private Pattern pattern(Object given) {
            if (given == null) {
                return null;
            }
            if (!given.equals(lastText)) {
                try {
                    lastPattern = Pattern.compile((String) given);
                } catch (PatternSyntaxException wrong) {
                    lastPattern = null;
                }
                lastText = (String) given;
            }
            return lastPattern;
        }
    }

    private static String[] groups(Matcher found) {
        int count = found.groupCount();
        if (count == 0) {
            return new String[] {found.group()};
        }
        String[] all = new String[count];
        for (int place = 0; place < count; place++) {
            all[place] = found.group(place + 1);
        }
        return all;
    }

    /** Finds an occurrence of a part. Positions are those of characters, counted from 1. */
    private static Object instr(String text, String part, long start, long occurrence) {
        if (occurrence < 1) {
            return null;
        }
        int length = text.codePointCount(0, text.length());
        if (start == 0 || start > length || start < -length) {
            return Long.valueOf(0);
        }
        boolean backwards = start < 0;
        int at = text.offsetByCodePoints(0, (int) (backwards ? length + start : start - 1));
        for (long seen = 1; ; seen++) {
            at = backwards ? text.lastIndexOf(part, at) : text.indexOf(part, at);
            if (at < 0) {
                return Long.valueOf(0);
            }
            if (seen == occurrence) {
                return Long.valueOf(text.codePointCount(0, at) + 1);
            }
            at += backwards ? -1 : 1;
            if (at < 0) {
                return Long.valueOf(0);
            }
        }
    }

    private static Object converted(String number, String from, String to) {
        try {
            int base = Integer.parseInt(from.trim());
            int other = Integer.parseInt(to.trim());
            boolean sound = base >= 2 && base <= 36 && other >= 2 && other <= 36;
            for (int place = 0; sound && place < number.length(); place++) {
                sound = number.charAt(place) < 128;
            }
            return sound ? new BigInteger(number, base).toString(other) : null;
        } catch (NumberFormatException wrong) {
            return null;
        }
    }

    /** Decodes form encoding; null if it is invalid, or not UTF-8. */
    private static Object decoded(String text) {
        byte[] given = text.getBytes(StandardCharsets.UTF_8);
        byte[] found = new byte[given.length];
        int length = 0;
        for (int place = 0; place < given.length; place++) {
            byte next = given[place];
            if (next == '%') {
                int high = place + 2 < given.length ? Character.digit((char) given[place + 1], 16) : -1;
                int low = place + 2 < given.length ? Character.digit((char) given[place + 2], 16) : -1;
                if (high < 0 || low < 0) {
                    return null;
                }
                next = (byte) (high << 4 | low);
                place += 2;
            } else if (next == '+') {
                next = ' ';
            }
            found[length++] = next;
        }
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(found, 0, length)).toString();
        } catch (CharacterCodingException wrong) {
            return null;
        }
    }

    /** Decodes hexadecimal digits, also behind 0x; without any bytes if they are invalid. */
    private static byte[] bytes(String text) {
        String digits = text.startsWith("0x") ? text.substring(2) : text;
        boolean ascii = digits.getBytes(StandardCharsets.UTF_8).length == digits.length();
        byte[] found = ascii ? RowDigests.bytes(digits) : null;
        return found == null ? new byte[0] : found;
    }

    static final String BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

    private static byte[] fromBase58(String text) {
        BigInteger number = BigInteger.ZERO;
        int zeros = 0;
        for (int place = 0; place < text.length(); place++) {
            int digit = BASE58.indexOf(text.charAt(place));
            if (digit < 0) {
                return new byte[0];
            }
            zeros += digit == 0 && zeros == place ? 1 : 0;
            number = number.multiply(BigInteger.valueOf(58)).add(BigInteger.valueOf(digit));
        }
        byte[] signed = number.toByteArray();
        int skipped = signed[0] == 0 ? 1 : 0;
        byte[] found = new byte[zeros + signed.length - skipped];
        System.arraycopy(signed, skipped, found, zeros, signed.length - skipped);
        return found;
    }

    private static byte[] reversed(byte[] given) {
        if (given.length != 32) {
            throw wrong("reverse_bytes32 takes 32 bytes, and is given " + given.length, "22023");
        }
        byte[] found = new byte[32];
        for (int place = 0; place < 32; place++) {
            found[place] = given[31 - place];
        }
        return found;
    }

    /** Formats a number with exactly this scale. A number that does not fit is an error; none is rounded. */
    private static String decimal(String text, int precision, int scale) {
        BigDecimal found;
        try {
            found = new BigDecimal(text.trim()).setScale(scale);
        } catch (NumberFormatException wrong) {
            throw wrong("'" + text + "' is no number", "22018");
        } catch (ArithmeticException wrong) {
            throw wrong(text + " has more than " + scale + " digits behind its point", "22003");
        }
        if (found.precision() > precision) {
            throw wrong(text + " does not fit into DECIMAL(" + precision + ", " + scale + ")", "22003");
        }
        return found.toPlainString();
    }
}
