package penstock;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.sql.types.*;

/** A Spark type in the form that the JSON scanners use: a kind, and names as bytes with their hashes. */
final class JsonShape implements Serializable {
    static final int OTHER = 0;
    static final int STRUCT = 1;
    static final int LIST = 2;
    static final int MAP = 3;
    static final int STRING = 4;
    static final int BOOLEAN = 5;
    static final int BYTE = 6;
    static final int SHORT = 7;
    static final int INT = 8;
    static final int LONG = 9;
    static final int FLOAT = 10;
    static final int DOUBLE = 11;
    static final int DECIMAL = 12;
    static final int TIMESTAMP = 13;
    static final int TIMESTAMP_NTZ = 14;
    static final int DATE = 15;
    static final JsonShape SKIPPED = new JsonShape(null, OTHER);
    static final byte[] PAYLOAD = "payload".getBytes(StandardCharsets.UTF_8);

    final DataType type;
    final int kind;
    byte[][] names = new byte[0][];
    int[] hashes = new int[0];
    JsonShape[] children = new JsonShape[0];
    JsonShape element;
    int precision;
    int scale;

    private JsonShape(DataType type, int kind) {
        this.type = type;
        this.kind = kind;
    }

    static JsonShape of(DataType type) {
        JsonShape made = new JsonShape(type, kind(type));
        if (type instanceof StructType) {
            StructField[] fields = ((StructType) type).fields();
            made.resize(fields.length);
            for (int place = 0; place < fields.length; place++) {
                made.set(place, fields[place].name().getBytes(StandardCharsets.UTF_8), of(fields[place].dataType()));
            }
        } else if (type instanceof ArrayType) {
            made.element = of(((ArrayType) type).elementType());
        } else if (type instanceof MapType) {
            made.element = of(((MapType) type).valueType());
        } else if (type instanceof DecimalType) {
            made.precision = ((DecimalType) type).precision();
            made.scale = ((DecimalType) type).scale();
        }
        return made;
    }

    private static int kind(DataType type) {
        return type instanceof StructType ? STRUCT
            : type instanceof ArrayType ? LIST
            : type instanceof MapType ? MAP
            : DataTypes.StringType.equals(type) ? STRING
            : type instanceof BooleanType ? BOOLEAN
            : type instanceof ByteType ? BYTE
            : type instanceof ShortType ? SHORT
            : type instanceof IntegerType ? INT
            : type instanceof LongType ? LONG
            : type instanceof FloatType ? FLOAT
            : type instanceof DoubleType ? DOUBLE
            : type instanceof DecimalType ? DECIMAL
            : type instanceof TimestampType ? TIMESTAMP
            : type instanceof TimestampNTZType ? TIMESTAMP_NTZ
            : type instanceof DateType ? DATE
            : OTHER;
    }

    private void resize(int count) {
        names = (byte[][]) Arrays.copyOf(names, count);
        hashes = Arrays.copyOf(hashes, count);
        children = (JsonShape[]) Arrays.copyOf(children, count);
    }

    private void set(int place, byte[] name, JsonShape child) {
        names[place] = name;
        hashes[place] = hash(name, 0, name.length);
        children[place] = child;
    }

    static int hash(byte[] data, int from, int to) {
        int made = 7;
        for (int place = from; place < to; place++) {
            made = made * 31 + data[place];
        }
        return made;
    }

    /** Whether `PlainJson` can read all values of the type. */
    boolean isPlain() {
        switch (kind) {
            case OTHER:
            case FLOAT:
                return false;
            case LIST:
                return element.isPlain();
            case MAP:
                return DataTypes.StringType.equals(((MapType) type).keyType()) && element.isPlain();
            default:
                boolean plain = true;
                for (int place = 0; place < names.length; place++) {
                    plain = plain && isPlain(names[place]) && children[place].isPlain();
                }
                return plain;
        }
    }

    /** Whether JSON writes a name without escapes. */
    private static boolean isPlain(byte[] name) {
        for (int at = 0; at < name.length; at++) {
            if (name[at] == '"' || name[at] == '\\' || (name[at] >= 0 && name[at] < ' ')) {
                return false;
            }
        }
        return true;
    }

    /** Returns the shape with null for each part whose values need no check. */
    JsonShape checked() {
        if (kind == STRUCT) {
            JsonShape made = new JsonShape(type, kind);
            made.resize(names.length);
            boolean any = false;
            for (int place = 0; place < names.length; place++) {
                made.set(place, names[place], children[place].checked());
                any = any || made.children[place] != null;
            }
            return any ? made : null;
        }
        if (kind == LIST || kind == MAP) {
            JsonShape made = new JsonShape(type, kind);
            made.element = element.checked();
            return made.element == null ? null : made;
        }
        return kind >= FLOAT ? this : null;
    }

    /** Returns the checked shape of an envelope, which may itself be the payload of another object. */
    static JsonShape checked(StructType schema, boolean envelope) {
        JsonShape shape = of(schema).checked();
        if (shape != null && envelope) {
            JsonShape payload = of(schema).checked();
            shape.resize(payload.names.length + 1);
            shape.set(payload.names.length, PAYLOAD, payload);
        }
        return shape;
    }
}
