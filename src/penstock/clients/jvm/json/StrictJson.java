package penstock;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Checks that bytes are exactly one JSON object whose values survive Spark's from_json unchanged.
 *
 * Spark's parser ignores the text after the first object, keeps the last of two equal keys, rounds decimals, and reads
 * every number for a timestamp as seconds. `checked` is one pass over the bytes of each record, without creating
 * objects; it leaves the grammar to Spark. `fault` describes the error of the few records that did not pass.
 */
public final class StrictJson {
    private StrictJson() {}

    /**
     * Returns the bytes of a value without a schema registry's prefix, or of the payload in an envelope; null if they
     * are invalid.
     */
    public static Column checked(Column value, StructType schema, boolean registry, boolean envelope) {
        UDF1 function = check(schema, registry, envelope);
        return functions.udf(function, DataTypes.BinaryType).withName("penstock_checked_json").apply(new Column[] {value});
    }

    /** Returns the same check as a function over bytes. */
    public static UDF1 check(StructType schema, boolean registry, boolean envelope) {
        return new Checked(schema, registry, envelope);
    }

    /** Describes the error of a value: a code, and in most cases `: ` and the reason; null if none is found. */
    public static Column fault(Column value, StructType schema, boolean registry, boolean envelope) {
        UDF1 function = new JsonFault(schema, registry, envelope);
        return functions.udf(function, DataTypes.StringType).withName("penstock_json_fault").apply(new Column[] {value});
    }

    /**
     * Lists the keys of an object with the kind of each value, in the order of the keys; null if the object is invalid.
     */
    public static Column signature(Column value) {
        UDF1 function = new Signature();
        return functions.udf(function, DataTypes.StringType).withName("penstock_json_sorts").apply(new Column[] {value});
    }

    /** Numbers the rows of each file, starting after `before`. */
    public static Column counted(Column file, int before) {
        UDF1 function = new Counted(before);
        return functions.udf(function, DataTypes.LongType).withName("penstock_line").asNondeterministic()
            .apply(new Column[] {file});
    }

    public static final class Checked implements UDF1 {
        private final JsonShape shape;
        private final boolean registry;
        private final boolean envelope;
        private transient JsonCheck scanner;

        Checked(StructType schema, boolean registry, boolean envelope) {
            this.shape = JsonShape.checked(schema, envelope);
            this.registry = registry;
            this.envelope = envelope;
        }

        public Object call(Object given) {
            if (given == null) {
                return null;
            }
            if (scanner == null) {
                scanner = new JsonCheck(shape, registry, envelope);
            }
            return scanner.scan((byte[]) given);
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
        private final UDF1 check = new Checked(new StructType(), false, false);

        public Object call(Object given) throws Exception {
            byte[] data = (byte[]) check.call(given);
            if (data == null) {
                return null;
            }
            try {
                JsonNode found = JsonFault.MAPPER.readTree(new String(data, StandardCharsets.UTF_8));
                TreeMap sorts = new TreeMap();
                Iterator inside = found.fields();
                while (inside.hasNext()) {
                    Map.Entry entry = (Map.Entry) inside.next();
                    sorts.put(entry.getKey(), ((JsonNode) entry.getValue()).getNodeType().toString());
                }
                return JsonFault.MAPPER.writeValueAsString(sorts);
            } catch (JsonProcessingException no) {
                return null;
            }
        }
    }
}
