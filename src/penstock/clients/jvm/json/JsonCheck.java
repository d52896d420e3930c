package penstock;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import org.apache.spark.sql.types.DataType;

/**
 * Checks the bytes of each value, and leaves the grammar to Spark.
 *
 * `code` and `why` describe the error that it finds.
 */
final class JsonCheck extends JsonBytes {
    static final int DEEPEST = 1000;
    static final int LONGEST_SHOWN = 60;

    String code;
    String why;
    int payloadFrom;
    int payloadTo;
    int edits;
    int[] editFrom = new int[4];
    int[] editTo = new int[4];
    String[] editText = new String[4];
    byte[][] keyText = new byte[64][];

    JsonCheck(JsonShape shape, boolean registry, boolean envelope) {
        super(shape, registry, envelope);
    }

    /** Returns the bytes for Spark to parse; null if the value is invalid. */
    byte[] scan(byte[] given) {
        edits = 0;
        code = null;
        why = null;
        payloadFrom = -1;
        if (!begin(given)) {
            return fails("not-json", null);
        }
        if (!object(shape)) {
            return null;
        }
        int from = payloadFrom >= 0 ? payloadFrom : start(given, registry);
        int to = payloadFrom >= 0 ? payloadTo : at;
        blanks();
        if (at < end) {
            return fails("not-json", "there is more text after the object: " + shown(text(at, end)));
        }
        if (edits > 0) {
            return edited(from, to);
        }
        return from == 0 && to == end ? data : Arrays.copyOfRange(data, from, to);
    }

    byte[] fails(String with, String reason) {
        if (code == null) {
            code = with;
            why = reason;
        }
        return null;
    }

    boolean wrong(String with, String reason) {
        fails(with, reason);
        return false;
    }

    boolean value(JsonShape of, int key) {
        if (at >= end) {
            return wrong("not-json", null);
        }
        byte first = data[at];
        if (first == '{') {
            return object(of);
        }
        if (first == '[') {
            return list(of, key);
        }
        int from = at;
        if (first == '"' || first == '\'') {
            if (!string(first)) {
                return false;
            }
            return of == null || of.kind <= JsonShape.MAP || textFits(of, key, from + 1, at - 1);
        }
        while (at < end) {
            byte next = data[at];
            if (next == ',' || next == '}' || next == ']' || next <= ' ') {
                break;
            }
            at++;
        }
        if (at == from) {
            return wrong("not-json", null);
        }
        return of == null || of.kind <= JsonShape.MAP || bareFits(of, key, from, at);
    }

    boolean list(JsonShape of, int key) {
        JsonShape inner = of != null && of.kind == JsonShape.LIST ? of.element : null;
        if (++depth > DEEPEST) {
            return wrong("not-json", "it is nested deeper than " + DEEPEST + " levels");
        }
        at++;
        while (true) {
            blanks();
            if (at >= end) {
                return wrong("not-json", null);
            }
            if (data[at] == ']') {
                at++;
                depth--;
                return true;
            }
            if (data[at] == ',') {
                at++;
            } else if (!value(inner, key)) {
                return false;
            }
        }
    }

    boolean object(JsonShape of) {
        int base = keys;
        int expected = 0;
        long seen = 0;
        int[] table = null;
        boolean outermost = depth == 0;
        if (++depth > DEEPEST) {
            return wrong("not-json", "it is nested deeper than " + DEEPEST + " levels");
        }
        at++;
        while (true) {
            blanks();
            if (at >= end) {
                return wrong("not-json", null);
            }
            byte quote = data[at];
            if (quote == '}') {
                at++;
                depth--;
                keys = base;
                return true;
            }
            if (quote == ',') {
                at++;
                continue;
            }
            if (quote != '"' && quote != '\'') {
                return wrong("not-json", null);
            }
            int from = at + 1;
            if (!string(quote)) {
                return false;
            }
            int key = remember(from, at - 1);
            int hash = keyHash[key];
            long bit = 1L << (hash & 63);
            if (key - base < 64) {
                if ((seen & bit) != 0) {
                    for (int other = base; other < key; other++) {
                        if (keyHash[other] == hash && same(other, key)) {
                            return twice(key);
                        }
                    }
                }
                seen |= bit;
            } else {
                if (table == null || (key - base) * 2 >= table.length) {
                    table = tabled(base, key);
                }
                int slot = hash & (table.length - 1);
                while (table[slot] != 0) {
                    int other = table[slot] - 1;
                    if (keyHash[other] == hash && same(other, key)) {
                        return twice(key);
                    }
                    slot = (slot + 1) & (table.length - 1);
                }
                table[slot] = key + 1;
            }
            blanks();
            if (at >= end || data[at] != ':') {
                return wrong("not-json", null);
            }
            at++;
            blanks();
            JsonShape child = null;
            if (of != null && of.kind == JsonShape.STRUCT) {
                int place = named(of, key, expected);
                if (place >= 0) {
                    child = of.children[place];
                    expected = place + 1;
                }
            } else if (of != null && of.kind == JsonShape.MAP) {
                child = of.element;
            }
            int begun = at;
            if (!value(child, key)) {
                return false;
            }
            if (outermost && envelope && data[begun] == '{' && is(key, JsonShape.PAYLOAD)) {
                payloadFrom = begun;
                payloadTo = at;
            }
        }
    }

    boolean twice(int key) {
        return wrong("duplicate-key", "the key `" + name(key) + "` occurs twice in one object");
    }

    int[] tabled(int base, int key) {
        int size = 256;
        while (size < (key - base) * 4) {
            size *= 2;
        }
        int[] made = new int[size];
        for (int other = base; other < key; other++) {
            int slot = keyHash[other] & (size - 1);
            while (made[slot] != 0) {
                slot = (slot + 1) & (size - 1);
            }
            made[slot] = other + 1;
        }
        return made;
    }

    int remember(int from, int to) {
        if (keys == keyText.length) {
            keyText = (byte[][]) Arrays.copyOf(keyText, keys * 2);
        }
        int hash = 7;
        boolean plain = true;
        for (int place = from; place < to; place++) {
            byte next = data[place];
            hash = hash * 31 + next;
            plain = plain && next != '\\';
        }
        keyText[keys] = null;
        if (!plain) {
            byte[] meant = unescaped(text(from, to)).getBytes(StandardCharsets.UTF_8);
            keyText[keys] = meant;
            hash = JsonShape.hash(meant, 0, meant.length);
        }
        return add(from, to, hash);
    }

    boolean same(int one, int other) {
        if (keyText[one] != null) {
            return is(other, keyText[one]);
        }
        if (keyText[other] != null) {
            return is(one, keyText[other]);
        }
        return Arrays.equals(data, keyFrom[one], keyTo[one], data, keyFrom[other], keyTo[other]);
    }

    boolean is(int key, byte[] name) {
        byte[] meant = keyText[key];
        return meant != null
            ? Arrays.equals(meant, name)
            : Arrays.equals(data, keyFrom[key], keyTo[key], name, 0, name.length);
    }

    String name(int key) {
        byte[] meant = keyText[key];
        return meant != null ? new String(meant, StandardCharsets.UTF_8) : text(keyFrom[key], keyTo[key]);
    }

    /** Returns the index of a key in the names of a struct. In most records the keys come in the same order. */
    int named(JsonShape of, int key, int expected) {
        int count = of.names.length;
        int hash = keyHash[key];
        if (expected < count && of.hashes[expected] == hash && is(key, of.names[expected])) {
            return expected;
        }
        for (int place = 0; place < count; place++) {
            if (of.hashes[place] == hash && is(key, of.names[place])) {
                return place;
            }
        }
        return -1;
    }

    /** Moves past the end of a string, whose bytes must be UTF-8. */
    boolean string(byte quote) {
        byte[] bytes = data;
        int stop = end;
        int place = at + 1;
        while (place < stop) {
            byte next = bytes[place];
            if (next == quote) {
                at = place + 1;
                return true;
            }
            if (next == '\\') {
                place += 2;
            } else if (next >= 0) {
                place++;
            } else {
                int length = sequence(bytes, place);
                if (length == 0) {
                    return wrong("not-text", "its byte " + (place + 1) + " is not UTF-8");
                }
                place += length;
            }
        }
        return wrong("not-json", null);
    }

    boolean textFits(JsonShape of, int key, int from, int to) {
        switch (of.kind) {
            case JsonShape.DECIMAL:
                return decimalFits(of, key, from, to, true);
            case JsonShape.TIMESTAMP:
            case JsonShape.TIMESTAMP_NTZ:
            case JsonShape.DATE:
                return inCalendar(from, to) || mismatch(of, key, from, to, null);
            default:
                return true;
        }
    }

    boolean bareFits(JsonShape of, int key, int from, int to) {
        byte first = data[from];
        if (first != '-' && (first < '0' || first > '9')) {
            return true;
        }
        switch (of.kind) {
            case JsonShape.DECIMAL:
                return decimalFits(of, key, from, to, false);
            case JsonShape.TIMESTAMP:
                return momentFits(of, key, from, to);
            case JsonShape.FLOAT:
            case JsonShape.DOUBLE:
                return floatFits(of, key, from, to);
            default:
                return true;
        }
    }

    /** Whether a number has no more digits before and after its decimal point than the column allows. */
    boolean decimalFits(JsonShape of, int key, int from, int to, boolean quoted) {
        int point = -1;
        for (int place = from; place < to; place++) {
            byte next = data[place];
            if (next == '.') {
                point = place;
            } else if ((next < '0' || next > '9') && place != from) {
                return exactlyFits(of, key, from, to, quoted);
            }
        }
        return point < 0 || to - point - 1 <= of.scale || exactlyFits(of, key, from, to, quoted);
    }

    boolean exactlyFits(JsonShape of, int key, int from, int to, boolean quoted) {
        BigDecimal found;
        try {
            String text = text(from, to);
            found = new BigDecimal(quoted ? text.replace(",", "") : text).stripTrailingZeros();
        } catch (NumberFormatException no) {
            return true;
        }
        if (found.signum() != 0 && (long) found.precision() - found.scale() > of.precision - of.scale) {
            return mismatch(of, key, from, to, null);
        }
        return found.scale() <= of.scale || mismatch(of, key, from, to, "without rounding it");
    }

    boolean floatFits(JsonShape of, int key, int from, int to) {
        boolean plain = to - from < 38;
        for (int place = from; plain && place < to; place++) {
            plain = data[place] != 'e' && data[place] != 'E';
        }
        if (plain) {
            return true;
        }
        try {
            double found = Double.parseDouble(text(from, to));
            boolean lost = Double.isInfinite(found) || (of.kind == JsonShape.FLOAT && Float.isInfinite((float) found));
            return !lost || mismatch(of, key, from, to, null);
        } catch (NumberFormatException no) {
            return true;
        }
    }

    /** Whether a string that may be a date or a time begins with a year of four digits. */
    boolean inCalendar(int from, int to) {
        int place = from;
        while (place < to && data[place] == ' ') {
            place++;
        }
        int digits = 0;
        boolean zero = true;
        while (place + digits < to && data[place + digits] >= '0' && data[place + digits] <= '9') {
            zero = zero && data[place + digits] == '0';
            digits++;
        }
        return digits == 4 && !zero && (place + 4 == to || data[place + 4] == '-' || data[place + 4] == ' ');
    }

    /**
     * Checks a number for a timestamp: seconds, milliseconds, microseconds or nanoseconds since 1970, depending on its
     * size. Spark expects seconds, so other units are replaced by text. A number between those ranges is a mismatch.
     */
    boolean momentFits(JsonShape of, int key, int from, int to) {
        long number;
        try {
            number = Long.parseLong(text(from, to));
        } catch (NumberFormatException no) {
            return mismatch(of, key, from, to, null);
        }
        if (number > -10000000000L && number < 10000000000L) {
            return true;
        }
        long micros = epochMicros(number);
        if (micros == NO_TIME) {
            return mismatch(of, key, from, to, "by a unit that its size tells");
        }
        Instant moment = Instant.ofEpochSecond(
            Math.floorDiv(micros, 1000000L), Math.floorMod(micros, 1000000L) * 1000L);
        if (edits == editFrom.length) {
            editFrom = Arrays.copyOf(editFrom, edits * 2);
            editTo = Arrays.copyOf(editTo, edits * 2);
            editText = (String[]) Arrays.copyOf(editText, edits * 2);
        }
        editFrom[edits] = from;
        editTo[edits] = to;
        editText[edits++] = "\"" + moment + "\"";
        return true;
    }

    boolean mismatch(JsonShape of, int key, int from, int to, String how) {
        String more = how == null ? "" : " " + how;
        return wrong("field-mismatch", not(name(key), text(from, to), of.type) + more);
    }

    byte[] edited(int begin, int end) {
        StringBuilder made = new StringBuilder();
        int from = begin;
        for (int place = 0; place < edits; place++) {
            if (editFrom[place] >= begin && editTo[place] <= end) {
                made.append(text(from, editFrom[place])).append(editText[place]);
                from = editTo[place];
            }
        }
        return made.append(text(from, end)).toString().getBytes(StandardCharsets.UTF_8);
    }

    /** Returns the length of the UTF-8 character that begins with a byte above ASCII; 0 if it is invalid. */
    static int sequence(byte[] bytes, int place) {
        int first = bytes[place] & 255;
        int second = place + 1 < bytes.length ? bytes[place + 1] & 255 : 0;
        if (first >= 194 && first <= 223) {
            return second >> 6 == 2 ? 2 : 0;
        }
        int third = place + 2 < bytes.length ? bytes[place + 2] & 255 : 0;
        if (first >= 224 && first <= 239) {
            int lowest = first == 224 ? 160 : 128;
            int highest = first == 237 ? 159 : 191;
            return second >= lowest && second <= highest && third >> 6 == 2 ? 3 : 0;
        }
        int fourth = place + 3 < bytes.length ? bytes[place + 3] & 255 : 0;
        if (first >= 240 && first <= 244) {
            int lowest = first == 240 ? 144 : 128;
            int highest = first == 244 ? 143 : 191;
            return second >= lowest && second <= highest && third >> 6 == 2 && fourth >> 6 == 2 ? 4 : 0;
        }
        return 0;
    }

    /** Returns the index of the first byte that is not UTF-8; -1 if all are valid. */
    static int notText(byte[] bytes, int from) {
        int place = from;
        while (place < bytes.length) {
            int length = bytes[place] >= 0 ? 1 : sequence(bytes, place);
            if (length == 0) {
                return place;
            }
            place += length;
        }
        return -1;
    }

    static String unescaped(String text) {
        try {
            return JsonFault.MAPPER.readTree("\"" + text.replace("\"", "\\\"").replace("\\\\\"", "\\\"") + "\"").textValue();
        } catch (JsonProcessingException no) {
            return text;
        }
    }

    static String shown(String text) {
        String line = text.replace('\n', ' ').replace('\r', ' ').replace('\t', ' ').trim();
        return "`" + (line.length() <= LONGEST_SHOWN ? line : line.substring(0, LONGEST_SHOWN) + "…") + "`";
    }

    static String not(String name, String value, DataType type) {
        return "`" + name + "`: " + shown(value) + " is not a " + type.sql();
    }
}
