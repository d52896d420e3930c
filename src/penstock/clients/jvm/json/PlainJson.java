package penstock;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads plain JSON records in one pass: JSON as programs write it, with values in the usual form of their types.
 *
 * It does not judge other records. They go through the strict check and Spark's parser.
 */
final class PlainJson extends JsonBytes {
    static final int DEEPEST = 100;
    static final int MOST_KEYS = 256;
    static final int LONGEST_KEY = 1000;
    static final int LONGEST_TEXT = 1000000;
    static final int LONGEST_NUMBER = 100;
    static final int MOST_DIGITS = 18;
    static final int EXACT_DIGITS = 15;
    static final int NO_DAY = Integer.MIN_VALUE;
    static final long DAY_MICROS = 86400000000L;
    static final String ESCAPES = "\"\\/bfnrt";
    static final String ESCAPED = "\"\\/\b\f\n\r\t";
    static final Object NOT_PLAIN = new Object();
    static final long[] POWERS = powers();

    private final boolean utc;
    // The last key that was read, if it is not a column.
    private int lastFrom;
    private int lastTo;
    private int lastHash;
    private boolean lastAscii;
    // The last number that was read.
    private long digits;
    private boolean negative;
    private int whole;
    private int fraction;

    PlainJson(JsonShape shape, boolean registry, boolean envelope, boolean utc) {
        super(shape, registry, envelope);
        this.utc = utc;
    }

    static long[] powers() {
        long[] made = new long[MOST_DIGITS + 1];
        made[0] = 1;
        for (int place = 1; place < made.length; place++) {
            made[place] = made[place - 1] * 10;
        }
        return made;
    }

    /** Decodes a record to a row; null if the record is not plain. */
    InternalRow decode(byte[] value) {
        if (!begin(value)) {
            return null;
        }
        Object made = object(shape);
        blanks();
        return made == NOT_PLAIN || at < end ? null : (InternalRow) made;
    }

    Object object(JsonShape of) {
        if (++depth > DEEPEST) {
            return NOT_PLAIN;
        }
        Object[] row = new Object[of.names.length];
        int base = keys;
        int expected = 0;
        long seen = 0;
        long[] seenMore = of.names.length > 64 ? new long[(of.names.length + 63) / 64] : null;
        long others = 0;
        at++;
        blanks();
        if (at < end && data[at] == '}') {
            at++;
            depth--;
            return new GenericInternalRow(row);
        }
        while (true) {
            if (at >= end || data[at] != '"') {
                return NOT_PLAIN;
            }
            int place = column(of, expected);
            if (place >= 0) {
                long bit = 1L << (place & 63);
                long before = seenMore == null ? seen : seenMore[place >> 6];
                if ((before & bit) != 0) {
                    return NOT_PLAIN;
                }
                if (seenMore == null) {
                    seen = before | bit;
                } else {
                    seenMore[place >> 6] = before | bit;
                }
                expected = place + 1;
            } else {
                long bit = 1L << (lastHash & 63);
                if (place < -1 || !lastAscii || ((others & bit) != 0 && isAmong(base))
                    || (envelope && depth == 1 && isPayload()) || !remember(base)) {
                    return NOT_PLAIN;
                }
                others |= bit;
            }
            if (!colon()) {
                return NOT_PLAIN;
            }
            Object found = value(place < 0 ? JsonShape.SKIPPED : of.children[place]);
            if (found == NOT_PLAIN) {
                return NOT_PLAIN;
            }
            if (place >= 0) {
                row[place] = found;
            }
            byte next = delimiter();
            if (next == '}') {
                keys = base;
                depth--;
                return new GenericInternalRow(row);
            }
            if (next != ',') {
                return NOT_PLAIN;
            }
            blanks();
        }
    }

    Object map(JsonShape of) {
        if (++depth > DEEPEST) {
            return NOT_PLAIN;
        }
        ArrayList names = new ArrayList();
        ArrayList values = new ArrayList();
        int base = keys;
        at++;
        blanks();
        boolean more = at >= end || data[at] != '}';
        if (!more) {
            at++;
        }
        while (more) {
            if (at >= end || data[at] != '"' || column(JsonShape.SKIPPED, 0) < -1 || isAmong(base)) {
                return NOT_PLAIN;
            }
            UTF8String name = UTF8String.fromBytes(data, lastFrom, lastTo - lastFrom);
            if (!lastAscii && !name.isValid()) {
                return NOT_PLAIN;
            }
            if (!remember(base) || !colon()) {
                return NOT_PLAIN;
            }
            Object found = value(of.element);
            byte next = delimiter();
            if (found == NOT_PLAIN || (next != '}' && next != ',')) {
                return NOT_PLAIN;
            }
            names.add(name);
            values.add(found);
            more = next == ',';
            if (more) {
                blanks();
            }
        }
        keys = base;
        depth--;
        return new ArrayBasedMapData(new GenericArrayData(names.toArray()), new GenericArrayData(values.toArray()));
    }

    Object list(JsonShape of) {
        if (++depth > DEEPEST) {
            return NOT_PLAIN;
        }
        ArrayList values = of.kind == JsonShape.OTHER ? null : new ArrayList();
        JsonShape element = of.kind == JsonShape.OTHER ? JsonShape.SKIPPED : of.element;
        at++;
        blanks();
        boolean more = at >= end || data[at] != ']';
        if (!more) {
            at++;
        }
        while (more) {
            Object found = value(element);
            byte next = delimiter();
            if (found == NOT_PLAIN || (next != ']' && next != ',')) {
                return NOT_PLAIN;
            }
            if (values != null) {
                values.add(found);
            }
            more = next == ',';
            if (more) {
                blanks();
            }
        }
        depth--;
        return values == null ? null : new GenericArrayData(values.toArray());
    }

    boolean colon() {
        blanks();
        if (at >= end || data[at] != ':') {
            return false;
        }
        at++;
        blanks();
        return true;
    }

    byte delimiter() {
        blanks();
        return at < end ? data[at++] : (byte) 0;
    }

    /** Reads a key. Returns the index of its column, -1 if there is none, a lower number if the key is not plain. */
    int column(JsonShape of, int expected) {
        byte[] bytes = data;
        int from = at + 1;
        if (expected < of.names.length) {
            byte[] name = of.names[expected];
            int to = from + name.length;
            if (to < end && bytes[to] == '"' && Arrays.equals(bytes, from, to, name, 0, name.length)) {
                at = to + 1;
                return expected;
            }
        }
        int to = from;
        int hash = 7;
        boolean ascii = true;
        while (true) {
            if (to >= end) {
                return -2;
            }
            byte next = bytes[to];
            if (next == '"') {
                break;
            }
            if (next == '\\' || (next >= 0 && next < ' ')) {
                return -2;
            }
            ascii = ascii && next >= 0;
            hash = hash * 31 + next;
            to++;
        }
        at = to + 1;
        for (int place = 0; place < of.names.length; place++) {
            byte[] name = of.names[place];
            if (of.hashes[place] == hash && Arrays.equals(bytes, from, to, name, 0, name.length)) {
                return place;
            }
        }
        lastFrom = from;
        lastTo = to;
        lastHash = hash;
        lastAscii = ascii;
        return to - from > LONGEST_KEY ? -2 : -1;
    }

    boolean isAmong(int base) {
        for (int place = base; place < keys; place++) {
            if (keyHash[place] == lastHash
                && Arrays.equals(data, keyFrom[place], keyTo[place], data, lastFrom, lastTo)) {
                return true;
            }
        }
        return false;
    }

    /** Keeps the last key; false if its object has too many keys to search. */
    boolean remember(int base) {
        if (keys - base == MOST_KEYS) {
            return false;
        }
        add(lastFrom, lastTo, lastHash);
        return true;
    }

    /** Whether the last key is that of an object which contains the envelope. */
    boolean isPayload() {
        return text(lastFrom, lastTo).equals("payload");
    }

    Object value(JsonShape of) {
        if (at >= end) {
            return NOT_PLAIN;
        }
        int kind = of.kind;
        switch (data[at]) {
            case '"':
                return text(of);
            case '{':
                return kind == JsonShape.STRUCT || kind == JsonShape.OTHER ? object(of) : kind == JsonShape.MAP ? map(of) : NOT_PLAIN;
            case '[':
                return kind == JsonShape.LIST || kind == JsonShape.OTHER ? list(of) : NOT_PLAIN;
            case 'n':
                return isWord("null") ? null : NOT_PLAIN;
            case 't':
                return (kind == JsonShape.BOOLEAN || kind == JsonShape.OTHER) && isWord("true") ? Boolean.TRUE : NOT_PLAIN;
            case 'f':
                return (kind == JsonShape.BOOLEAN || kind == JsonShape.OTHER) && isWord("false") ? Boolean.FALSE : NOT_PLAIN;
            default:
                return number(of);
        }
    }

    boolean isWord(String word) {
        int length = word.length();
        if (at + length > end) {
            return false;
        }
        for (int place = 1; place < length; place++) {
            if (data[at + place] != word.charAt(place)) {
                return false;
            }
        }
        at += length;
        return true;
    }

    Object text(JsonShape of) {
        byte[] bytes = data;
        int from = at + 1;
        int to = from;
        boolean ascii = true;
        boolean escaped = false;
        while (true) {
            if (to >= end) {
                return NOT_PLAIN;
            }
            byte next = bytes[to];
            if (next == '"') {
                break;
            }
            if (next == '\\') {
                escaped = true;
                to++;
            } else if (next < 0) {
                ascii = false;
            } else if (next < ' ') {
                return NOT_PLAIN;
            }
            to++;
        }
        at = to + 1;
        if (of.kind == JsonShape.STRING || of.kind == JsonShape.OTHER) {
            UTF8String found = UTF8String.fromBytes(bytes, from, to - from);
            if (to - from > LONGEST_TEXT || (!ascii && !found.isValid())) {
                return NOT_PLAIN;
            }
            return escaped ? unescaped(from, to) : found;
        }
        if (escaped || !ascii) {
            return NOT_PLAIN;
        }
        switch (of.kind) {
            case JsonShape.DECIMAL:
                return readNumber(from, to) == to ? decimal(of) : NOT_PLAIN;
            case JsonShape.TIMESTAMP:
            case JsonShape.TIMESTAMP_NTZ:
                return moment(from, to, of.kind == JsonShape.TIMESTAMP);
            case JsonShape.DATE:
                int day = to - from == 10 ? day(from) : NO_DAY;
                return day == NO_DAY ? NOT_PLAIN : Integer.valueOf(day);
            default:
                return NOT_PLAIN;
        }
    }

    Object unescaped(int from, int to) {
        byte[] made = new byte[to - from];
        int length = 0;
        int place = from;
        while (place < to) {
            byte next = data[place++];
            if (next != '\\') {
                made[length++] = next;
                continue;
            }
            next = data[place++];
            int simple = ESCAPES.indexOf(next);
            if (simple >= 0) {
                made[length++] = (byte) ESCAPED.charAt(simple);
                continue;
            }
            int code = next == 'u' ? 0 : -1;
            for (int stop = place + 4; code >= 0 && place < stop; place++) {
                int digit = place < to ? Character.digit((char) data[place], 16) : -1;
                code = digit < 0 ? -1 : code * 16 + digit;
            }
            if (code < 0 || (code >= 0xD800 && code <= 0xDFFF)) {
                return NOT_PLAIN;
            }
            if (code < 0x80) {
                made[length++] = (byte) code;
            } else if (code < 0x800) {
                made[length++] = (byte) (0xC0 | code >> 6);
                made[length++] = (byte) (0x80 | code & 0x3F);
            } else {
                made[length++] = (byte) (0xE0 | code >> 12);
                made[length++] = (byte) (0x80 | code >> 6 & 0x3F);
                made[length++] = (byte) (0x80 | code & 0x3F);
            }
        }
        return UTF8String.fromBytes(made, 0, length);
    }

    /** Reads a number without exponent into the fields. Returns its end, or -1. The digits of long ones are wrong. */
    int readNumber(int from, int to) {
        byte[] bytes = data;
        int place = from;
        negative = place < to && bytes[place] == '-';
        if (negative) {
            place++;
        }
        int begin = place;
        long found = 0;
        while (place < to && bytes[place] >= '0' && bytes[place] <= '9') {
            found = found * 10 + (bytes[place++] - '0');
        }
        whole = place - begin;
        fraction = 0;
        if (whole == 0 || (whole > 1 && bytes[begin] == '0')) {
            return -1;
        }
        if (place < to && bytes[place] == '.') {
            begin = ++place;
            while (place < to && bytes[place] >= '0' && bytes[place] <= '9') {
                found = found * 10 + (bytes[place++] - '0');
            }
            fraction = place - begin;
            if (fraction == 0) {
                return -1;
            }
        }
        digits = negative ? -found : found;
        return place;
    }

    Object number(JsonShape of) {
        int from = at;
        int to = readNumber(from, end);
        if (to < 0) {
            return NOT_PLAIN;
        }
        if (of.kind == JsonShape.OTHER) {
            return skipExponent(from, to);
        }
        if (whole + fraction > MOST_DIGITS || (to < end && (data[to] == 'e' || data[to] == 'E'))) {
            return NOT_PLAIN;
        }
        at = to;
        switch (of.kind) {
            case JsonShape.DECIMAL:
                return decimal(of);
            case JsonShape.DOUBLE:
                return real(from, to);
            default:
                return fraction > 0 ? NOT_PLAIN : integer(of.kind);
        }
    }

    Object skipExponent(int from, int to) {
        int place = to;
        if (place < end && (data[place] == 'e' || data[place] == 'E')) {
            place++;
            if (place < end && (data[place] == '-' || data[place] == '+')) {
                place++;
            }
            int begin = place;
            while (place < end && data[place] >= '0' && data[place] <= '9') {
                place++;
            }
            if (place == begin) {
                return NOT_PLAIN;
            }
        }
        at = place;
        return place - from > LONGEST_NUMBER ? NOT_PLAIN : null;
    }

    Object integer(int kind) {
        long found = digits;
        switch (kind) {
            case JsonShape.LONG:
                return Long.valueOf(found);
            case JsonShape.INT:
                return found == (int) found ? Integer.valueOf((int) found) : NOT_PLAIN;
            case JsonShape.SHORT:
                return found == (short) found ? Short.valueOf((short) found) : NOT_PLAIN;
            case JsonShape.BYTE:
                return found == (byte) found ? Byte.valueOf((byte) found) : NOT_PLAIN;
            case JsonShape.TIMESTAMP:
                long micros = epochMicros(found);
                return micros == NO_TIME ? NOT_PLAIN : Long.valueOf(micros);
            default:
                return NOT_PLAIN;
        }
    }

    Object real(int from, int to) {
        if (negative && digits == 0) {
            return NOT_PLAIN;
        }
        if (fraction == 0) {
            return Double.valueOf((double) digits);
        }
        if (whole + fraction <= EXACT_DIGITS) {  // both are exact, so the quotient is the nearest number
            return Double.valueOf((double) digits / (double) POWERS[fraction]);
        }
        return Double.valueOf(new String(data, from, to - from, StandardCharsets.US_ASCII));
    }

    /** Returns the last number as a decimal; not plain if it would be rounded, or may be too large. */
    Object decimal(JsonShape of) {
        int shift = of.scale - fraction;
        if (shift < 0 || whole + fraction + shift > MOST_DIGITS) {
            return NOT_PLAIN;
        }
        long unscaled = digits * POWERS[shift];
        if (of.precision > MOST_DIGITS) {
            return Decimal.apply(BigDecimal.valueOf(unscaled, of.scale), of.precision, of.scale);
        }
        return Math.abs(unscaled) < POWERS[of.precision]
            ? (Object) Decimal.createUnsafe(unscaled, of.precision, of.scale)
            : NOT_PLAIN;
    }

    /** Reads a number of two digits; invalid digits give a large number. */
    int two(int place) {
        int tens = data[place] - '0';
        int ones = data[place + 1] - '0';
        return tens < 0 || tens > 9 || ones < 0 || ones > 9 ? 1000 : tens * 10 + ones;
    }

    /** Reads the days since 1970 from a text like 2024-01-31, whose ten bytes must exist. */
    int day(int from) {
        int century = two(from);
        int inCentury = two(from + 2);
        int month = two(from + 5);
        int day = two(from + 8);
        int year = century * 100 + inCentury;
        if (data[from + 4] != '-' || data[from + 7] != '-' || century > 99 || inCentury > 99 || year == 0
            || month == 0 || month > 12 || day == 0 || day > 31 || (day > 28 && day > lengthOf(month, year))) {
            return NO_DAY;
        }
        int shifted = month > 2 ? year : year - 1;  // years that begin in March
        int ofYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
        return shifted * 365 + Math.floorDiv(shifted, 4) - Math.floorDiv(shifted, 100) + Math.floorDiv(shifted, 400)
            + ofYear - 719468;
    }

    int lengthOf(int month, int year) {
        if (month == 2) {
            return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
        }
        return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
    }

    /** Reads a text like 2024-01-31T12:30:00.123Z as microseconds. With `zoned`, the session's zone is the default. */
    Object moment(int from, int to, boolean zoned) {
        byte[] bytes = data;
        if (to - from < 19 || (bytes[from + 10] != 'T' && bytes[from + 10] != ' ')) {
            return NOT_PLAIN;
        }
        int day = day(from);
        int hour = two(from + 11);
        int minute = two(from + 14);
        int second = two(from + 17);
        if (day == NO_DAY || hour > 23 || minute > 59 || second > 59
            || bytes[from + 13] != ':' || bytes[from + 16] != ':') {
            return NOT_PLAIN;
        }
        long micros = day * DAY_MICROS + ((hour * 60 + minute) * 60 + second) * 1000000L;
        int place = from + 19;
        if (place < to && bytes[place] == '.') {
            int begin = ++place;
            long found = 0;
            while (place < to && bytes[place] >= '0' && bytes[place] <= '9') {
                found = found * 10 + (bytes[place++] - '0');
            }
            if (place == begin || place - begin > 6) {
                return NOT_PLAIN;
            }
            micros += found * POWERS[6 - (place - begin)];
        }
        if (place == to) {
            return zoned && !utc ? NOT_PLAIN : Long.valueOf(micros);
        }
        if (!zoned) {
            return NOT_PLAIN;
        }
        if (bytes[place] == 'Z') {
            return place + 1 == to ? Long.valueOf(micros) : NOT_PLAIN;
        }
        if (to - place != 6 || bytes[place + 3] != ':' || (bytes[place] != '+' && bytes[place] != '-')) {
            return NOT_PLAIN;
        }
        int hours = two(place + 1);
        int minutes = two(place + 4);
        if (hours > 17 || minutes > 59) {
            return NOT_PLAIN;
        }
        long offset = (hours * 60 + minutes) * 60000000L;
        return Long.valueOf(bytes[place] == '+' ? micros - offset : micros + offset);
    }
}
