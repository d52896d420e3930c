package penstock;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Checks that bytes are exactly one JSON object whose values survive Spark's from_json unchanged.
 *
 * Spark's parser ignores what follows the first object, keeps the last of two equal keys, rounds decimals, and takes
 * every number for a timestamp as seconds. `checked` is one pass over the bytes of each record, without objects; it
 * leaves the grammar to Spark. `fault` is for the few records that did not pass, and says what is wrong with one.
 * It is compiled by the Janino that comes with Spark, which knows Java without generics and lambdas.
 */
public final class StrictJson {
    static final int OTHER = 0;
    static final int STRUCT = 1;
    static final int LIST = 2;
    static final int MAP = 3;
    static final int DECIMAL = 4;
    static final int TIMESTAMP = 5;
    static final int DATE = 6;
    static final int FLOAT = 7;
    static final int DOUBLE = 8;
    static final int DEEPEST = 1000;
    static final int LONGEST_SHOWN = 60;
    static final byte[] PAYLOAD = "payload".getBytes(StandardCharsets.UTF_8);

    private StrictJson() {}

    /**
     * The bytes of a value, without what a schema registry puts before them; null if they are not sound. Where rows
     * stand in an envelope, the bytes of its payload.
     */
    public static Column checked(Column value, StructType schema, boolean registry, boolean envelope) {
        UDF1 function = new Checked(schema, registry, envelope);
        return functions.udf(function, DataTypes.BinaryType).withName("penstock_checked_json").apply(new Column[] {value});
    }

    /** The same check as a function over bytes. */
    public static UDF1 check(StructType schema, boolean registry, boolean envelope) {
        return new Checked(schema, registry, envelope);
    }

    /** What is wrong with a value: a code, and in most cases `: ` and the reason; null if nothing is found. */
    public static Column fault(Column value, StructType schema, boolean registry, boolean envelope) {
        UDF1 function = new Fault(schema, registry, envelope);
        return functions.udf(function, DataTypes.StringType).withName("penstock_json_fault").apply(new Column[] {value});
    }

    /** The keys of an object and what sort of value each has, in the order of the keys; null if it is not sound. */
    public static Column signature(Column value, boolean registry) {
        UDF1 function = new Signature(registry);
        return functions.udf(function, DataTypes.StringType).withName("penstock_json_sorts").apply(new Column[] {value});
    }

    /** The number of a row in its file, from the first one on, behind some that were there before. */
    public static Column counted(Column file, int before) {
        UDF1 function = new Counted(before);
        return functions.udf(function, DataTypes.LongType).withName("penstock_line").asNondeterministic()
            .apply(new Column[] {file});
    }

    /** What of a type has to be looked at, where something has to. */
    public static final class Shape implements Serializable {
        int kind;
        DataType type;
        Shape element;
        byte[][] names;
        int[] hashes;
        Shape[] children;
        int scale;
        int whole;
    }

    static Shape shape(DataType type) {
        Shape made = new Shape();
        made.type = type;
        if (type instanceof StructType) {
            StructField[] fields = ((StructType) type).fields();
            made.kind = STRUCT;
            made.names = new byte[fields.length][];
            made.hashes = new int[fields.length];
            made.children = new Shape[fields.length];
            boolean any = false;
            for (int place = 0; place < fields.length; place++) {
                made.names[place] = fields[place].name().getBytes(StandardCharsets.UTF_8);
                made.hashes[place] = hash(made.names[place], 0, made.names[place].length);
                made.children[place] = shape(fields[place].dataType());
                any = any || made.children[place] != null;
            }
            return any ? made : null;
        }
        if (type instanceof ArrayType) {
            made.kind = LIST;
            made.element = shape(((ArrayType) type).elementType());
            return made.element == null ? null : made;
        }
        if (type instanceof MapType) {
            made.kind = MAP;
            made.element = shape(((MapType) type).valueType());
            return made.element == null ? null : made;
        }
        if (type instanceof DecimalType) {
            made.kind = DECIMAL;
            made.scale = ((DecimalType) type).scale();
            made.whole = ((DecimalType) type).precision() - made.scale;
        } else if (type instanceof TimestampType) {
            made.kind = TIMESTAMP;
        } else if (type instanceof DateType || type instanceof TimestampNTZType) {
            made.kind = DATE;
        } else if (type instanceof FloatType) {
            made.kind = FLOAT;
        } else if (type instanceof DoubleType) {
            made.kind = DOUBLE;
        }
        return made.kind == OTHER ? null : made;
    }

    /** The shape of an envelope, which may itself be the payload of another object. */
    static Shape enveloped(Shape shape) {
        if (shape == null) {
            return null;
        }
        Shape made = new Shape();
        int count = shape.names.length;
        made.kind = STRUCT;
        made.type = shape.type;
        made.names = (byte[][]) Arrays.copyOf(shape.names, count + 1);
        made.hashes = Arrays.copyOf(shape.hashes, count + 1);
        made.children = (Shape[]) Arrays.copyOf(shape.children, count + 1);
        made.names[count] = PAYLOAD;
        made.hashes[count] = hash(PAYLOAD, 0, PAYLOAD.length);
        made.children[count] = shape;
        return made;
    }

    static int hash(byte[] data, int from, int to) {
        int made = 7;
        for (int place = from; place < to; place++) {
            made = made * 31 + data[place];
        }
        return made;
    }

    /** Goes over the bytes of one value after the other. What it finds wrong is in `code` and `why`. */
    static final class Scanner {
        final Shape shape;
        final boolean registry;
        final boolean envelope;
        byte[] data;
        int at;
        int depth;
        String code;
        String why;
        int payloadFrom;
        int payloadTo;
        int edits;
        int[] editFrom = new int[4];
        int[] editTo = new int[4];
        String[] editText = new String[4];
        int keys;
        int[] keyHash = new int[64];
        int[] keyFrom = new int[64];
        int[] keyTo = new int[64];
        byte[][] keyText = new byte[64][];

        Scanner(Shape shape, boolean registry, boolean envelope) {
            this.shape = shape;
            this.registry = registry;
            this.envelope = envelope;
        }

        /** The bytes that Spark is to read; null if something is wrong. */
        byte[] scan(byte[] given) {
            data = given;
            depth = 0;
            keys = 0;
            edits = 0;
            code = null;
            why = null;
            payloadFrom = -1;
            int begin = registry && given.length > 0 && given[0] == 0 ? Math.min(5, given.length) : 0;
            at = begin;
            blanks();
            if (at >= data.length || data[at] != '{') {
                return fails("not-json", null);
            }
            if (!object(shape)) {
                return null;
            }
            int end = at;
            blanks();
            if (at < data.length) {
                return fails("not-json", "behind the object there is more: " + shown(text(at, data.length)));
            }
            if (payloadFrom >= 0) {
                begin = payloadFrom;
                end = payloadTo;
            }
            if (edits > 0) {
                return edited(begin, end);
            }
            return begin == 0 && end == data.length ? data : Arrays.copyOfRange(data, begin, end);
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

        String text(int from, int to) {
            return new String(data, from, to - from, StandardCharsets.UTF_8);
        }

        void blanks() {
            while (at < data.length) {
                byte next = data[at];
                if (next != ' ' && next != '\n' && next != '\r' && next != '\t') {
                    return;
                }
                at++;
            }
        }

        boolean value(Shape of, int key) {
            if (at >= data.length) {
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
                return of == null || of.kind <= MAP || textFits(of, key, from + 1, at - 1);
            }
            while (at < data.length) {
                byte next = data[at];
                if (next == ',' || next == '}' || next == ']' || next <= ' ') {
                    break;
                }
                at++;
            }
            if (at == from) {
                return wrong("not-json", null);
            }
            return of == null || of.kind <= MAP || bareFits(of, key, from, at);
        }

        boolean list(Shape of, int key) {
            Shape inner = of != null && of.kind == LIST ? of.element : null;
            if (++depth > DEEPEST) {
                return wrong("not-json", "it is nested deeper than " + DEEPEST + " levels");
            }
            at++;
            while (true) {
                blanks();
                if (at >= data.length) {
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

        boolean object(Shape of) {
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
                if (at >= data.length) {
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
                if (at >= data.length || data[at] != ':') {
                    return wrong("not-json", null);
                }
                at++;
                blanks();
                Shape child = null;
                if (of != null && of.kind == STRUCT) {
                    int place = named(of, key, expected);
                    if (place >= 0) {
                        child = of.children[place];
                        expected = place + 1;
                    }
                } else if (of != null && of.kind == MAP) {
                    child = of.element;
                }
                int begun = at;
                if (!value(child, key)) {
                    return false;
                }
                if (outermost && envelope && hash == PAYLOAD_HASH && data[begun] == '{' && is(key, PAYLOAD)) {
                    payloadFrom = begun;
                    payloadTo = at;
                }
            }
        }

        static final int PAYLOAD_HASH = hash(PAYLOAD, 0, PAYLOAD.length);

        boolean twice(int key) {
            return wrong("duplicate-key", "the key `" + name(key) + "` stands in one object twice");
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
            if (keys == keyHash.length) {
                keyHash = Arrays.copyOf(keyHash, keys * 2);
                keyFrom = Arrays.copyOf(keyFrom, keys * 2);
                keyTo = Arrays.copyOf(keyTo, keys * 2);
                keyText = (byte[][]) Arrays.copyOf(keyText, keys * 2);
            }
            int made = 7;
            boolean plain = true;
            for (int place = from; place < to; place++) {
                byte next = data[place];
                made = made * 31 + next;
                plain = plain && next != '\\';
            }
            keyFrom[keys] = from;
            keyTo[keys] = to;
            keyText[keys] = null;
            if (!plain) {
                byte[] meant = unescaped(text(from, to)).getBytes(StandardCharsets.UTF_8);
                keyText[keys] = meant;
                made = hash(meant, 0, meant.length);
            }
            keyHash[keys] = made;
            return keys++;
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

        /** The place of a key among the names of a struct, which in most records come in one order. */
        int named(Shape of, int key, int expected) {
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

        /** Go behind the end of a string, whose bytes must be UTF-8. */
        boolean string(byte quote) {
            byte[] bytes = data;
            int end = bytes.length;
            int place = at + 1;
            while (place < end) {
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

        boolean textFits(Shape of, int key, int from, int to) {
            switch (of.kind) {
                case DECIMAL:
                    return decimalFits(of, key, from, to, true);
                case TIMESTAMP:
                case DATE:
                    return inCalendar(from, to) || mismatch(of, key, from, to, null);
                default:
                    return true;
            }
        }

        boolean bareFits(Shape of, int key, int from, int to) {
            byte first = data[from];
            if (first != '-' && (first < '0' || first > '9')) {
                return true;
            }
            switch (of.kind) {
                case DECIMAL:
                    return decimalFits(of, key, from, to, false);
                case TIMESTAMP:
                    return momentFits(of, key, from, to);
                case FLOAT:
                case DOUBLE:
                    return floatFits(of, key, from, to);
                default:
                    return true;
            }
        }

        /** Whether a number has no more digits before and behind its point than a column takes. */
        boolean decimalFits(Shape of, int key, int from, int to, boolean quoted) {
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

        boolean exactlyFits(Shape of, int key, int from, int to, boolean quoted) {
            BigDecimal found;
            try {
                String text = text(from, to);
                found = new BigDecimal(quoted ? text.replace(",", "") : text).stripTrailingZeros();
            } catch (NumberFormatException no) {
                return true;
            }
            if (found.signum() != 0 && (long) found.precision() - found.scale() > of.whole) {
                return mismatch(of, key, from, to, null);
            }
            return found.scale() <= of.scale || mismatch(of, key, from, to, "without rounding it");
        }

        boolean floatFits(Shape of, int key, int from, int to) {
            boolean plain = to - from < 38;
            for (int place = from; plain && place < to; place++) {
                plain = data[place] != 'e' && data[place] != 'E';
            }
            if (plain) {
                return true;
            }
            try {
                double found = Double.parseDouble(text(from, to));
                boolean lost = Double.isInfinite(found) || (of.kind == FLOAT && Float.isInfinite((float) found));
                return !lost || mismatch(of, key, from, to, null);
            } catch (NumberFormatException no) {
                return true;
            }
        }

        /** Whether a text that may be a day or a time begins with a year of four digits. */
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
         * A number for a timestamp: seconds, milliseconds, microseconds or nanoseconds since 1970, by how large it is.
         * Spark takes seconds, so others are put as text. Between those ranges there is no telling.
         */
        boolean momentFits(Shape of, int key, int from, int to) {
            long number;
            try {
                number = Long.parseLong(text(from, to));
            } catch (NumberFormatException no) {
                return mismatch(of, key, from, to, null);
            }
            long size = number == Long.MIN_VALUE ? Long.MAX_VALUE : Math.abs(number);
            if (size < 10000000000L) {
                return true;
            }
            long unit =
                size >= 100000000000L && size < 10000000000000L ? 1000L
                : size >= 100000000000000L && size < 10000000000000000L ? 1000000L
                : size >= 100000000000000000L ? 1000000000L
                : 0L;
            if (unit == 0L) {
                return mismatch(of, key, from, to, "by a unit that its size tells");
            }
            Instant moment = Instant.ofEpochSecond(
                Math.floorDiv(number, unit), Math.floorMod(number, unit) * (1000000000L / unit) / 1000L * 1000L);
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

        boolean mismatch(Shape of, int key, int from, int to, String how) {
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
    }

    /** How many bytes a character of UTF-8 has that begins at a place with a byte above ASCII; 0 if it is none. */
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

    /** The place of the first byte that is not UTF-8; -1 if all are. */
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
            return MAPPER.readTree("\"" + text.replace("\"", "\\\"").replace("\\\\\"", "\\\"") + "\"").textValue();
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

    public static final class Checked implements UDF1 {
        private final Shape shape;
        private final boolean registry;
        private final boolean envelope;
        private transient Scanner scanner;

        Checked(StructType schema, boolean registry, boolean envelope) {
            this.shape = envelope ? enveloped(shape(schema)) : shape(schema);
            this.registry = registry;
            this.envelope = envelope;
        }

        public Object call(Object given) {
            if (given == null) {
                return null;
            }
            if (scanner == null) {
                scanner = new Scanner(shape, registry, envelope);
            }
            return scanner.scan((byte[]) given);
        }
    }

    static final ObjectMapper MAPPER = mapper();

    private static ObjectMapper mapper() {
        ObjectMapper made = new ObjectMapper();
        made.configure(DeserializationFeature.FAIL_ON_TRAILING_TOKENS, true);
        made.configure(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS, true);
        made.configure(JsonReadFeature.ALLOW_SINGLE_QUOTES.mappedFeature(), true);
        made.configure(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS.mappedFeature(), true);
        return made;
    }

    public static final class Fault implements UDF1 {
        private final StructType schema;
        private final boolean registry;
        private final boolean envelope;

        Fault(StructType schema, boolean registry, boolean envelope) {
            this.schema = schema;
            this.registry = registry;
            this.envelope = envelope;
        }

        public Object call(Object given) {
            if (given == null) {
                return null;
            }
            byte[] data = (byte[]) given;
            int begin = registry && data.length > 0 && data[0] == 0 ? Math.min(5, data.length) : 0;
            int wrong = notText(data, begin);
            if (wrong >= 0) {
                return "not-text: its byte " + (wrong + 1) + " is not UTF-8";
            }
            String text = new String(data, begin, data.length - begin, StandardCharsets.UTF_8);
            Shape shape = envelope ? enveloped(shape(schema)) : shape(schema);
            Scanner scanner = new Scanner(shape, registry, envelope);
            boolean sound = scanner.scan(data) != null;
            if (!sound && scanner.why != null) {
                return scanner.code + ": " + scanner.why;
            }
            JsonNode found;
            try {
                found = MAPPER.readTree(text);
            } catch (JsonProcessingException no) {
                String place = no.getLocation() == null ? "" : ", at character " + no.getLocation().getColumnNr();
                String said = no.getOriginalMessage().replace('\n', ' ');
                return "not-json: " + said.split(" \\(start marker at|: was expecting ")[0] + place;
            }
            if (found == null || !found.isObject()) {
                return "not-json: it is " + sort(found) + ", not an object";
            }
            JsonNode payload = envelope ? (JsonNode) found.get("payload") : null;
            String why = unfit(payload != null && payload.isObject() ? payload : found, schema, "");
            return why != null ? "field-mismatch: " + why : sound ? null : scanner.code;
        }
    }

    static String sort(JsonNode value) {
        return value == null || value.isMissingNode() ? "empty"
            : value.isArray() ? "an array"
            : value.isTextual() ? "a text"
            : value.isNumber() ? "a number"
            : value.toString();
    }

    /** Which value of an object does not fit its column, if one can be found. */
    static String unfit(JsonNode object, StructType schema, String prefix) {
        StructField[] fields = schema.fields();
        for (int place = 0; place < fields.length; place++) {
            JsonNode value = (JsonNode) object.get(fields[place].name());
            if (value != null) {
                String why = unfitValue(value, fields[place].dataType(), prefix + fields[place].name());
                if (why != null) {
                    return why;
                }
            }
        }
        return null;
    }

    static String unfitValue(JsonNode value, DataType type, String name) {
        if (value.isNull()) {
            return null;
        }
        boolean fits = true;
        if (type instanceof StructType) {
            if (value.isObject()) {
                return unfit(value, (StructType) type, name + ".");
            }
            fits = false;
        } else if (type instanceof ArrayType) {
            if (value.isArray()) {
                for (int place = 0; place < value.size(); place++) {
                    DataType inner = ((ArrayType) type).elementType();
                    String why = unfitValue((JsonNode) value.get(place), inner, name + "[" + place + "]");
                    if (why != null) {
                        return why;
                    }
                }
            }
            fits = value.isArray();
        } else if (type instanceof MapType) {
            if (value.isObject()) {
                Iterator inside = value.fields();
                while (inside.hasNext()) {
                    Map.Entry entry = (Map.Entry) inside.next();
                    DataType inner = ((MapType) type).valueType();
                    String why = unfitValue((JsonNode) entry.getValue(), inner, name + "." + entry.getKey());
                    if (why != null) {
                        return why;
                    }
                }
            }
            fits = value.isObject();
        } else if (type instanceof BooleanType) {
            fits = value.isBoolean();
        } else if (type instanceof ByteType) {
            fits = value.canConvertToInt() && value.isIntegralNumber() && (byte) value.intValue() == value.intValue();
        } else if (type instanceof ShortType) {
            fits = value.canConvertToInt() && value.isIntegralNumber() && (short) value.intValue() == value.intValue();
        } else if (type instanceof IntegerType) {
            fits = value.isIntegralNumber() && value.canConvertToInt();
        } else if (type instanceof LongType) {
            fits = value.isIntegralNumber() && value.canConvertToLong();
        } else if (type instanceof FloatType || type instanceof DoubleType) {
            String text = value.isTextual() ? value.textValue() : "";
            fits = value.isNumber() || text.endsWith("Infinity") || text.endsWith("INF") || text.equals("NaN");
        } else if (type instanceof DecimalType) {
            fits = value.isNumber() || isDecimal(value);
            if (fits) {
                BigDecimal number = value.isNumber() ? value.decimalValue() : new BigDecimal(value.textValue().replace(",", ""));
                fits = number.precision() - number.scale() <= ((DecimalType) type).precision() - ((DecimalType) type).scale();
            }
        } else if (type instanceof TimestampType || type instanceof TimestampNTZType) {
            fits = value.isIntegralNumber() && type instanceof TimestampType || (value.isTextual()
                && DateTimeUtils.stringToTimestamp(UTF8String.fromString(value.textValue()), ZoneOffset.UTC).isDefined());
        } else if (type instanceof DateType) {
            fits = value.isTextual()
                && DateTimeUtils.stringToDate(UTF8String.fromString(value.textValue())).isDefined();
        } else if (type instanceof BinaryType) {
            fits = value.isTextual();
        }
        return fits ? null : not(name, value.isTextual() ? value.textValue() : value.toString(), type);
    }

    static boolean isDecimal(JsonNode value) {
        if (!value.isTextual()) {
            return false;
        }
        try {
            new BigDecimal(value.textValue().replace(",", ""));
            return true;
        } catch (NumberFormatException no) {
            return false;
        }
    }

    public static final class Counted implements UDF1 {
        private final int before;
        private transient Object last;
        private transient long count;

        Counted(int before) {
            this.before = before;
        }

        public Object call(Object file) {
            if (!file.equals(last)) {
                last = file;
                count = before;
            }
            return Long.valueOf(++count);
        }
    }

    public static final class Signature implements UDF1 {
        private final boolean registry;
        private transient Scanner scanner;

        Signature(boolean registry) {
            this.registry = registry;
        }

        public Object call(Object given) {
            if (given == null) {
                return null;
            }
            if (scanner == null) {
                scanner = new Scanner(null, registry, false);
            }
            byte[] data = scanner.scan((byte[]) given);
            if (data == null) {
                return null;
            }
            try {
                JsonNode found = MAPPER.readTree(new String(data, StandardCharsets.UTF_8));
                java.util.TreeMap sorts = new java.util.TreeMap();
                Iterator inside = found.fields();
                while (inside.hasNext()) {
                    Map.Entry entry = (Map.Entry) inside.next();
                    sorts.put(entry.getKey(), ((JsonNode) entry.getValue()).getNodeType().toString());
                }
                return MAPPER.writeValueAsString(sorts);
            } catch (JsonProcessingException no) {
                return null;
            }
        }
    }
}
