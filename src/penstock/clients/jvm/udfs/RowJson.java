package penstock;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.UDFRegistration;
import org.apache.spark.sql.api.java.*;
import org.apache.spark.sql.types.DataTypes;

/**
 * Functions over JSON strings, with the Jackson of Spark, as functions of a Spark session.
 *
 * Numbers keep their digits as written, and objects the order of their keys.
 */
public final class RowJson {
    static final int QUOTE = 0;
    static final int UNQUOTE = 1;
    static final int JSON = 2;
    static final int IS_JSON = 3;
    static final int ARRAY = 4;
    static final int TUPLES = 5;
    static final int EXISTS = 6;
    static final int OBJECT = 7;
    static final int QUERY = 8;
    static final int VALUE = 9;

    private RowJson() {}

    public static void register(SparkSession session) {
        UDFRegistration functions = session.udf();
        functions.register("penstock_row_json_quote", (UDF1) new Function(QUOTE), DataTypes.StringType);
        functions.register("penstock_row_json_unquote", (UDF1) new Function(UNQUOTE), DataTypes.StringType);
        functions.register("penstock_row_json", (UDF2) new Function(JSON), DataTypes.StringType);
        functions.register("penstock_row_is_json", (UDF2) new Function(IS_JSON), DataTypes.BooleanType);
        functions.register("penstock_row_json_array", (UDF2) new Function(ARRAY), DataTypes.StringType);
        functions.register("penstock_row_clickhouse_tuples", (UDF2) new Function(TUPLES), DataTypes.StringType);
        functions.register("penstock_row_json_exists", (UDF3) new Function(EXISTS), DataTypes.BooleanType);
        functions.register("penstock_row_json_object", (UDF3) new Function(OBJECT), DataTypes.StringType);
        functions.register("penstock_row_json_query", (UDF5) new Function(QUERY), DataTypes.StringType);
        functions.register("penstock_row_json_value", (UDF6) new Function(VALUE), DataTypes.StringType);
    }

    static RuntimeException wrong(String why) {
        return new IllegalArgumentException("[ROW_FUNCTION] " + why + ". SQLSTATE: 22032");
    }

    /** Created on each machine, and not serialized. */
    static final ObjectMapper MAPPER = mapper();

    private static ObjectMapper mapper() {
        ObjectMapper made = new ObjectMapper();
        made.configure(DeserializationFeature.FAIL_ON_TRAILING_TOKENS, true);
        made.configure(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS, true);
        made.setNodeFactory(JsonNodeFactory.withExactBigDecimals(true));
        return made;
    }

    /** Parses a text; null if it is not JSON. */
    static JsonNode read(String text) {
        try {
            JsonNode found = MAPPER.readTree(text);
            return found == null || found.isMissingNode() ? null : found;
        } catch (JsonProcessingException wrong) {
            return null;
        }
    }

    static String shown(String text) {
        return text.length() <= 100 ? text : text.substring(0, 100) + "…";
    }

    public static final class Function implements UDF1, UDF2, UDF3, UDF5, UDF6 {
        private final int which;
        private transient String lastPath;
        private transient List lastSteps;

        Function(int which) {
            this.which = which;
        }

        public Object call(Object a) {
            if (a == null) {
                return null;
            }
            return which == QUOTE ? quoted((String) a) : unquoted((String) a);
        }

        /**
         * Runs a function of two arguments. The second one is: whether invalid JSON is an error, a kind of JSON,
         * whether nulls are omitted, or the keys of tuples.
         */
        public Object call(Object a, Object b) {
            switch (which) {
                case JSON:
                    return a == null ? null : plain((String) a, ((Boolean) b).booleanValue());
                case IS_JSON:
                    return Boolean.valueOf(a != null && isJson((String) a, (String) b));
                case ARRAY:
                    return array((String) a, ((Boolean) b).booleanValue());
                default:
                    return tuples((String) a, (String) b);
            }
        }

        public Object call(Object a, Object b, Object c) {
            if (which == OBJECT) {
                return object((String) a, (String) b, ((Boolean) c).booleanValue());
            }
            if (a == null || b == null) {
                return null;
            }
            List steps = steps((String) b);
            JsonNode whole = read((String) a);
            if (whole != null) {
                JsonNode found = at(whole, steps);
                return Boolean.valueOf(found != null && !found.isNull());
            }
            String choice = (String) c;
            if ("ERROR".equals(choice)) {
                throw wrong("json_exists is given what is not JSON: " + shown((String) a));
            }
            return "UNKNOWN".equals(choice) ? null : Boolean.valueOf("TRUE".equals(choice));
        }

        /**
         * JSON_QUERY: a text, a path, a wrapper, and the results for a missing value and for a text that is not JSON.
         */
        public Object call(Object a, Object b, Object c, Object d, Object e) {
            if (a == null || b == null) {
                return null;
            }
            List steps = steps((String) b);
            JsonNode whole = read((String) a);
            if (whole == null) {
                return instead((String) e, null, "json_query is given what is not JSON");
            }
            JsonNode found = at(whole, steps);
            String wrapper = (String) c;
            boolean wrapped = wrapper.startsWith("WITH UNCONDITIONAL")
                || (wrapper.startsWith("WITH CONDITIONAL") && found != null && !found.isContainerNode());
            if (found == null || (!wrapped && !found.isContainerNode())) {
                return instead((String) d, null, "json_query found nothing");
            }
            return wrapped ? "[" + found + "]" : found.toString();
        }

        /** JSON_VALUE: a text, a path, and the results for a missing value and for a text that is not JSON. */
        public Object call(Object a, Object b, Object c, Object d, Object e, Object f) {
            if (a == null || b == null) {
                return null;
            }
            List steps = steps((String) b);
            JsonNode whole = read((String) a);
            if (whole == null) {
                return instead((String) e, (String) f, "json_value is given what is not JSON");
            }
            JsonNode found = at(whole, steps);
            if (found == null || found.isNull() || found.isContainerNode()) {
                return instead((String) c, (String) d, "json_value found nothing");
            }
            return found.isTextual() ? found.textValue() : found.toString();
        }

        /** Returns the steps of a path: strings for keys, numbers for indexes. The last path is cached. */
        private List steps(String path) {
            if (!path.equals(lastPath)) {
                lastSteps = parsed(path);
                lastPath = path;
            }
            return lastSteps;
        }
    }

    private static Object instead(String choice, String given, String why) {
        if ("ERROR".equals(choice)) {
            throw wrong(why);
        }
        if ("DEFAULT".equals(choice)) {
            return given;
        }
        return "EMPTY ARRAY".equals(choice) ? "[]" : "EMPTY OBJECT".equals(choice) ? "{}" : null;
    }

    private static List parsed(String path) {
        RuntimeException invalid = wrong("'" + shown(path) + "' is no path: it is $, .key, [0] and ['key']");
        ArrayList steps = new ArrayList();
        int at = 1;
        if (!path.startsWith("$")) {
            throw invalid;
        }
        while (at < path.length()) {
            int end;
            if (path.charAt(at) == '.') {
                end = at + 1;
                while (end < path.length() && path.charAt(end) != '.' && path.charAt(end) != '[') {
                    end++;
                }
                String key = path.substring(at + 1, end);
                if (key.isEmpty() || key.equals("*")) {
                    throw invalid;
                }
                steps.add(key);
            } else if (path.charAt(at) == '[' && at + 1 < path.length()) {
                char quote = path.charAt(at + 1);
                if (quote == '\'' || quote == '"') {
                    int closed = path.indexOf(quote, at + 2);
                    if (closed < 0 || !path.startsWith("]", closed + 1)) {
                        throw invalid;
                    }
                    steps.add(path.substring(at + 2, closed));
                    end = closed + 2;
                } else {
                    int closed = path.indexOf(']', at);
                    if (closed < 0 || !path.substring(at + 1, closed).matches("[0-9]{1,9}")) {
                        throw invalid;
                    }
                    steps.add(Integer.valueOf(path.substring(at + 1, closed)));
                    end = closed + 1;
                }
            } else {
                throw invalid;
            }
            at = end;
        }
        return steps;
    }

    private static JsonNode at(JsonNode whole, List steps) {
        JsonNode found = whole;
        for (int step = 0; found != null && step < steps.size(); step++) {
            Object next = steps.get(step);
            if (next instanceof String) {
                found = (JsonNode) found.get((String) next);
            } else {
                found = (JsonNode) found.get(((Integer) next).intValue());
            }
        }
        return found;
    }

    /** Quotes a text as a JSON string, in ASCII only. */
    private static String quoted(String text) {
        StringBuilder made = new StringBuilder("\"");
        for (int place = 0; place < text.length(); place++) {
            char letter = text.charAt(place);
            int short_ = "\"\\/\b\f\n\r\t".indexOf(letter);
            if (short_ >= 0) {
                made.append('\\').append("\"\\/bfnrt".charAt(short_));
            } else if (letter < 32 || letter > 126) {
                made.append(String.format("\\u%04x", new Object[] {Integer.valueOf(letter)}));
            } else {
                made.append(letter);
            }
        }
        return made.append('"').toString();
    }

    /** Removes the quotes of a JSON string; any other text stays unchanged. */
    private static String unquoted(String text) {
        JsonNode found = text.length() > 1 && text.startsWith("\"") && text.endsWith("\"") ? read(text) : null;
        return found != null && found.isTextual() ? found.textValue() : text;
    }

    private static Object plain(String text, boolean strict) {
        if (text.trim().isEmpty()) {
            return null;
        }
        JsonNode found = read(text);
        if (found == null && strict) {
            throw wrong("this is not JSON: " + shown(text));
        }
        return found == null ? null : found.toString();
    }

    private static boolean isJson(String text, String sort) {
        JsonNode found = read(text);
        if (found == null) {
            return false;
        }
        if ("OBJECT".equals(sort)) {
            return found.isObject();
        }
        if ("ARRAY".equals(sort)) {
            return found.isArray();
        }
        return !"SCALAR".equals(sort) || !found.isContainerNode();
    }

    /** Embeds a value: a text that contains an object or an array becomes that. */
    private static JsonNode embedded(JsonNode value) {
        String text = value.isTextual() ? value.textValue().trim() : "";
        boolean nested = text.startsWith("{") || text.startsWith("[");
        JsonNode found = nested ? read(text) : null;
        return found == null ? value : found;
    }

    private static String array(String values, boolean absent) {
        ArrayNode made = MAPPER.createArrayNode();
        Iterator given = read(values).elements();
        while (given.hasNext()) {
            JsonNode value = embedded((JsonNode) given.next());
            if (!absent || !value.isNull()) {
                made.add(value);
            }
        }
        return made.toString();
    }

    private static String object(String keys, String values, boolean absent) {
        ObjectNode made = MAPPER.createObjectNode();
        Iterator names = read(keys).elements();
        Iterator given = read(values).elements();
        while (given.hasNext()) {
            JsonNode name = (JsonNode) names.next();
            JsonNode value = embedded((JsonNode) given.next());
            if (name.isNull()) {
                throw wrong("json_object is given NULL for a key");
            }
            if (!absent || !value.isNull()) {
                made.set(name.textValue(), value);
            }
        }
        return made.toString();
    }

    /** Converts objects to tuples of ClickHouse, with the values of these keys. */
    private static String tuples(String text, String keys) {
        if (text == null) {
            return "[]";
        }
        JsonNode found = read(text);
        JsonNode names = keys == null ? MAPPER.createArrayNode() : read(keys);
        if (found == null || !found.isArray()) {
            throw wrong("this is no array of JSON: " + shown(text));
        }
        StringBuilder made = new StringBuilder("[");
        for (int place = 0; place < found.size(); place++) {
            made.append(place > 0 ? ", (" : "(");
            for (int at = 0; at < names.size(); at++) {
                JsonNode name = (JsonNode) names.get(at);
                JsonNode value = (JsonNode) ((JsonNode) found.get(place)).get(name.asText());
                made.append(at > 0 ? ", " : "");
                made.append(value == null ? "null" : value.isTextual() ? literal(value.textValue()) : value.toString());
            }
            made.append(')');
        }
        return made.append(']').toString();
    }

    private static String literal(String text) {
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'";
    }
}
