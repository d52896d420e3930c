package penstock;

import com.fasterxml.jackson.core.JsonFactory;
import java.io.IOException;
import java.io.Serializable;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ExprUtils;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.json.JacksonParser;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.BadRecordException;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;

/**
 * Decodes bytes of JSON into rows.
 *
 * Nearly all records are plain: JSON as programs write it, with values in the usual form of their types. `Plain` reads
 * those in one pass. It never judges: what it does not know goes through the strict check, and then to the parser
 * behind Spark's from_json, so that both ways give the same row. The parser is given the bytes themselves; from_json
 * makes a reader of characters for each record, with buffers of its own, and is no part of generated code.
 * It is compiled by the Janino that comes with Spark, which knows Java without generics and lambdas.
 */
public final class JsonRows {
    static final int SKIPPED = 0;
    static final int STRUCT = 1;
    static final int LIST = 2;
    static final int MAP = 3;
    static final int STRING = 4;
    static final int BOOLEAN = 5;
    static final int BYTE = 6;
    static final int SHORT = 7;
    static final int INT = 8;
    static final int LONG = 9;
    static final int DOUBLE = 10;
    static final int DECIMAL = 11;
    static final int TIMESTAMP = 12;
    static final int TIMESTAMP_NTZ = 13;
    static final int DATE = 14;
    static final int DEEPEST = 100;
    static final int MOST_KEYS = 256;
    static final int LONGEST_KEY = 1000;
    static final int LONGEST_TEXT = 1000000;
    static final int LONGEST_NUMBER = 100;
    static final int MOST_DIGITS = 18;
    static final int EXACT_DIGITS = 15;
    static final int NO_DAY = Integer.MIN_VALUE;
    static final long DAY_MICROS = 86400000000L;
    static final Object NOT_PLAIN = new Object();
    static final long[] POWERS = powers();

    private JsonRows() {}

    /**
     * The row of a binary value, with null for each field that it lacks; null if it is no row. `check` gives the bytes
     * of a sound value, or null. Without it, only plain values give rows.
     */
    public static Column row(Column value, StructType schema, UDF1 check, boolean registry, boolean envelope) {
        if (ExprUtils.checkJsonSchema(schema).isFailure()) {
            return functions.from_json(value.cast(DataTypes.StringType), schema);  // Spark says what is wrong with it
        }
        StructType nullable = schema.asNullable();
        Decoder decoder = new Decoder(nullable, check, registry, envelope);
        Object[] arguments = new Object[] {ExpressionUtils.expression(value)};
        Expression call = new Invoke(
            Literal.create(decoder, new ObjectType(Decoder.class)), "decode", nullable,
            CollectionConverters.asScala(Arrays.asList(arguments)).toSeq(), (Seq) Nil$.MODULE$, true, true, true);
        return ExpressionUtils.column(call);
    }

    public static final class Decoder implements Serializable {
        private final StructType schema;
        private final UDF1 check;
        private final boolean registry;
        private final boolean envelope;
        private transient boolean ready;
        private transient Plain plain;
        private transient JacksonParser parser;

        Decoder(StructType schema, UDF1 check, boolean registry, boolean envelope) {
            this.schema = schema;
            this.check = check;
            this.registry = registry;
            this.envelope = envelope;
        }

        public InternalRow decode(byte[] value) throws Exception {
            if (!ready) {
                prepare();
            }
            InternalRow row = plain == null ? null : plain.decode(value);
            return row != null || check == null ? row : parse((byte[]) check.call(value));
        }

        /** On an executor, where the settings are those of the session that asks. */
        private void prepare() {
            SQLConf settings = SQLConf.get();
            Object legacy = settings.legacyTimeParserPolicy();
            Shape shape = legacy.toString().equals("LEGACY") ? null : shape(schema);
            String zone = settings.sessionLocalTimeZone();
            plain = shape == null ? null : new Plain(shape, registry, envelope, zone.equals("UTC"));
            scala.collection.immutable.Map none = scala.collection.immutable.Map$.MODULE$.empty();
            parser = new JacksonParser(schema, new JSONOptions(none, zone, ""), false, (Seq) Nil$.MODULE$);
            ready = true;
        }

        private InternalRow parse(byte[] sound) throws Exception {
            if (sound == null) {
                return null;
            }
            try {
                return (InternalRow) parser.parse(sound, BYTES, NO_TEXT).iterator().next();
            } catch (Exception wrong) {
                if (wrong instanceof BadRecordException) {
                    return null;
                }
                throw wrong;
            }
        }

        public String toString() {
            return "penstock_json";
        }
    }

    static final BytesParser BYTES = new BytesParser();
    static final NoText NO_TEXT = new NoText();

    static final class BytesParser extends AbstractFunction2 {
        public Object apply(Object factory, Object bytes) {
            try {
                return ((JsonFactory) factory).createParser((byte[]) bytes);
            } catch (IOException wrong) {
                Platform.throwException(wrong);
                return null;
            }
        }
    }

    /** The text of a record that is no row, which nobody asks for. */
    static final class NoText extends AbstractFunction1 {
        public Object apply(Object bytes) {
            return UTF8String.EMPTY_UTF8;
        }
    }

    /** A type, as `Plain` reads it. */
    static final class Shape {
        int kind;
        int count;
        byte[][] names = new byte[0][];
        int[] hashes;
        Shape[] children;
        Shape element;
        int precision;
        int scale;
    }

    static final Shape SKIP = new Shape();

    /** Null if values of the type are left to Spark's parser. */
    static Shape shape(DataType type) {
        Shape made = new Shape();
        if (type instanceof StructType) {
            return structShape(((StructType) type).fields());
        }
        if (type instanceof ArrayType) {
            made.kind = LIST;
            made.element = shape(((ArrayType) type).elementType());
            return made.element == null ? null : made;
        }
        if (type instanceof MapType) {
            made.kind = MAP;
            made.element = shape(((MapType) type).valueType());
            return made.element == null || !DataTypes.StringType.equals(((MapType) type).keyType()) ? null : made;
        }
        if (type instanceof DecimalType) {
            made.precision = ((DecimalType) type).precision();
            made.scale = ((DecimalType) type).scale();
        }
        made.kind =
            DataTypes.StringType.equals(type) ? STRING
            : type instanceof BooleanType ? BOOLEAN
            : type instanceof ByteType ? BYTE
            : type instanceof ShortType ? SHORT
            : type instanceof IntegerType ? INT
            : type instanceof LongType ? LONG
            : type instanceof DoubleType ? DOUBLE
            : type instanceof DecimalType ? DECIMAL
            : type instanceof TimestampType ? TIMESTAMP
            : type instanceof TimestampNTZType ? TIMESTAMP_NTZ
            : type instanceof DateType ? DATE
            : SKIPPED;
        return made.kind == SKIPPED ? null : made;
    }

    static Shape structShape(StructField[] fields) {
        Shape made = new Shape();
        made.kind = STRUCT;
        made.count = fields.length;
        made.names = new byte[fields.length][];
        made.hashes = new int[fields.length];
        made.children = new Shape[fields.length];
        for (int place = 0; place < fields.length; place++) {
            byte[] name = fields[place].name().getBytes(StandardCharsets.UTF_8);
            int hash = 7;
            for (int at = 0; at < name.length; at++) {
                if (name[at] == '"' || name[at] == '\\' || (name[at] >= 0 && name[at] < ' ')) {
                    return null;
                }
                hash = hash * 31 + name[at];
            }
            made.names[place] = name;
            made.hashes[place] = hash;
            made.children[place] = shape(fields[place].dataType());
            if (made.children[place] == null) {
                return null;
            }
        }
        return made;
    }

    static long[] powers() {
        long[] made = new long[MOST_DIGITS + 1];
        made[0] = 1;
        for (int place = 1; place < made.length; place++) {
            made[place] = made[place - 1] * 10;
        }
        return made;
    }

    /** Reads plain records, one after the other. */
    static final class Plain {
        final Shape shape;
        final boolean registry;
        final boolean envelope;
        final boolean utc;
        byte[] data;
        int at;
        int end;
        int depth;
        // The keys of the objects around, beside columns.
        int keys;
        int[] keyFrom = new int[64];
        int[] keyTo = new int[64];
        int[] keyHash = new int[64];
        // The key that was read last, if it is no column.
        int lastFrom;
        int lastTo;
        int lastHash;
        boolean lastAscii;
        // The number that was read last.
        long digits;
        boolean negative;
        int whole;
        int fraction;

        Plain(Shape shape, boolean registry, boolean envelope, boolean utc) {
            this.shape = shape;
            this.registry = registry;
            this.envelope = envelope;
            this.utc = utc;
        }

        /** Null if the record is not plain. */
        InternalRow decode(byte[] value) {
            data = value;
            end = value.length;
            at = registry && end > 0 && value[0] == 0 ? Math.min(5, end) : 0;
            depth = 0;
            keys = 0;
            blanks();
            if (at >= end || value[at] != '{') {
                return null;
            }
            Object made = object(shape);
            blanks();
            return made == NOT_PLAIN || at < end ? null : (InternalRow) made;
        }

        void blanks() {
            while (at < end) {
                byte next = data[at];
                if (next > ' ' || (next != ' ' && next != '\n' && next != '\r' && next != '\t')) {
                    return;
                }
                at++;
            }
        }

        Object object(Shape of) {
            if (++depth > DEEPEST) {
                return NOT_PLAIN;
            }
            Object[] row = new Object[of.count];
            int base = keys;
            int expected = 0;
            long seen = 0;
            long[] seenMore = of.count > 64 ? new long[(of.count + 63) / 64] : null;
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
                Object found = value(place < 0 ? SKIP : of.children[place]);
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

        Object map(Shape of) {
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
                if (at >= end || data[at] != '"' || column(SKIP, 0) < -1 || isAmong(base)) {
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

        Object list(Shape of) {
            if (++depth > DEEPEST) {
                return NOT_PLAIN;
            }
            ArrayList values = of.kind == SKIPPED ? null : new ArrayList();
            Shape element = of.kind == SKIPPED ? SKIP : of.element;
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

        /** Read a key: the place of its column, -1 if there is none, less if it is not plain. */
        int column(Shape of, int expected) {
            byte[] bytes = data;
            int from = at + 1;
            if (expected < of.count) {
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
            for (int place = 0; place < of.count; place++) {
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

        /** Keep the last key; false if its object has so many that looking through them would take long. */
        boolean remember(int base) {
            if (keys - base == MOST_KEYS) {
                return false;
            }
            if (keys == keyHash.length) {
                keyFrom = Arrays.copyOf(keyFrom, keys * 2);
                keyTo = Arrays.copyOf(keyTo, keys * 2);
                keyHash = Arrays.copyOf(keyHash, keys * 2);
            }
            keyFrom[keys] = lastFrom;
            keyTo[keys] = lastTo;
            keyHash[keys++] = lastHash;
            return true;
        }

        /** Whether the last key is that of an object which has the envelope in it. */
        boolean isPayload() {
            return new String(data, lastFrom, lastTo - lastFrom, StandardCharsets.UTF_8).equals("payload");
        }

        Object value(Shape of) {
            if (at >= end) {
                return NOT_PLAIN;
            }
            int kind = of.kind;
            switch (data[at]) {
                case '"':
                    return text(of);
                case '{':
                    return kind == STRUCT || kind == SKIPPED ? object(of) : kind == MAP ? map(of) : NOT_PLAIN;
                case '[':
                    return kind == LIST || kind == SKIPPED ? list(of) : NOT_PLAIN;
                case 'n':
                    return isWord("null") ? null : NOT_PLAIN;
                case 't':
                    return (kind == BOOLEAN || kind == SKIPPED) && isWord("true") ? Boolean.TRUE : NOT_PLAIN;
                case 'f':
                    return (kind == BOOLEAN || kind == SKIPPED) && isWord("false") ? Boolean.FALSE : NOT_PLAIN;
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

        Object text(Shape of) {
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
            if (of.kind == STRING || of.kind == SKIPPED) {
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
                case DECIMAL:
                    return readNumber(from, to) == to ? decimal(of) : NOT_PLAIN;
                case TIMESTAMP:
                case TIMESTAMP_NTZ:
                    return moment(from, to, of.kind == TIMESTAMP);
                case DATE:
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
                switch (next) {
                    case '"':
                    case '\\':
                    case '/':
                        made[length++] = next;
                        break;
                    case 'b':
                        made[length++] = '\b';
                        break;
                    case 'f':
                        made[length++] = '\f';
                        break;
                    case 'n':
                        made[length++] = '\n';
                        break;
                    case 'r':
                        made[length++] = '\r';
                        break;
                    case 't':
                        made[length++] = '\t';
                        break;
                    case 'u':
                        int code = 0;
                        for (int stop = place + 4; place < stop; place++) {
                            int digit = place < to ? Character.digit((char) data[place], 16) : -1;
                            if (digit < 0) {
                                return NOT_PLAIN;
                            }
                            code = code * 16 + digit;
                        }
                        if (code < 0x80) {
                            made[length++] = (byte) code;
                        } else if (code < 0x800) {
                            made[length++] = (byte) (0xC0 | code >> 6);
                            made[length++] = (byte) (0x80 | code & 0x3F);
                        } else if (code < 0xD800 || code > 0xDFFF) {
                            made[length++] = (byte) (0xE0 | code >> 12);
                            made[length++] = (byte) (0x80 | code >> 6 & 0x3F);
                            made[length++] = (byte) (0x80 | code & 0x3F);
                        } else {
                            return NOT_PLAIN;
                        }
                        break;
                    default:
                        return NOT_PLAIN;
                }
            }
            return UTF8String.fromBytes(made, 0, length);
        }

        /** Read a number without exponent into fields: where it ends, or -1. Of long ones the digits are wrong. */
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

        Object number(Shape of) {
            int from = at;
            int to = readNumber(from, end);
            if (to < 0) {
                return NOT_PLAIN;
            }
            if (of.kind == SKIPPED) {
                return skipExponent(from, to);
            }
            if (whole + fraction > MOST_DIGITS || (to < end && (data[to] == 'e' || data[to] == 'E'))) {
                return NOT_PLAIN;
            }
            at = to;
            switch (of.kind) {
                case DECIMAL:
                    return decimal(of);
                case DOUBLE:
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
                case LONG:
                    return Long.valueOf(found);
                case INT:
                    return found == (int) found ? Integer.valueOf((int) found) : NOT_PLAIN;
                case SHORT:
                    return found == (short) found ? Short.valueOf((short) found) : NOT_PLAIN;
                case BYTE:
                    return found == (byte) found ? Byte.valueOf((byte) found) : NOT_PLAIN;
                case TIMESTAMP:
                    return epoch(found);
                default:
                    return NOT_PLAIN;
            }
        }

        /** Seconds, milliseconds, microseconds or nanoseconds since 1970, in the ranges of the strict check. */
        Object epoch(long number) {
            long size = Math.abs(number);
            if (size < 10000000000L) {
                return Long.valueOf(number * 1000000L);
            }
            if (size >= 100000000000L && size < 10000000000000L) {
                return Long.valueOf(number * 1000L);
            }
            if (size >= 100000000000000L && size < 10000000000000000L) {
                return Long.valueOf(number);
            }
            return size >= 100000000000000000L ? Long.valueOf(Math.floorDiv(number, 1000L)) : NOT_PLAIN;
        }

        Object real(int from, int to) {
            if (negative && digits == 0) {
                return NOT_PLAIN;
            }
            if (fraction == 0) {
                return Double.valueOf((double) digits);
            }
            if (whole + fraction <= EXACT_DIGITS) {  // both are exact, so that the quotient is the nearest number
                return Double.valueOf((double) digits / (double) POWERS[fraction]);
            }
            return Double.valueOf(new String(data, from, to - from, StandardCharsets.US_ASCII));
        }

        /** The number that was read last; not plain if it would be rounded, or may be too large. */
        Object decimal(Shape of) {
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

        /** A number of two digits; a large one if it is none. */
        int two(int place) {
            int tens = data[place] - '0';
            int ones = data[place + 1] - '0';
            return tens < 0 || tens > 9 || ones < 0 || ones > 9 ? 1000 : tens * 10 + ones;
        }

        /** The days since 1970 of a text like 2024-01-31, whose ten bytes are there. */
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

        /** A text like 2024-01-31T12:30:00.123Z: microseconds since 1970. With `zoned`, the session's zone is the default. */
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
}
