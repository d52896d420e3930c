package penstock;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.ZoneOffset;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;

/** Describes the error of a value with Jackson, for the few values that did not pass the check. */
public final class JsonFault implements UDF1 {
    static final ObjectMapper MAPPER = mapper();

    private static ObjectMapper mapper() {
        ObjectMapper made = new ObjectMapper();
        made.configure(DeserializationFeature.FAIL_ON_TRAILING_TOKENS, true);
        made.configure(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS, true);
        made.configure(JsonReadFeature.ALLOW_SINGLE_QUOTES.mappedFeature(), true);
        made.configure(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS.mappedFeature(), true);
        return made;
    }

    private final StructType schema;
    private final boolean registry;
    private final boolean envelope;

    JsonFault(StructType schema, boolean registry, boolean envelope) {
        this.schema = schema;
        this.registry = registry;
        this.envelope = envelope;
    }

    public Object call(Object given) {
        if (given == null) {
            return null;
        }
        byte[] data = (byte[]) given;
        int begin = JsonBytes.start(data, registry);
        int wrong = JsonCheck.notText(data, begin);
        if (wrong >= 0) {
            return "not-text: its byte " + (wrong + 1) + " is not UTF-8";
        }
        String text = new String(data, begin, data.length - begin, StandardCharsets.UTF_8);
        JsonCheck scanner = new JsonCheck(JsonShape.checked(schema, envelope), registry, envelope);
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

    static String sort(JsonNode value) {
        return value == null || value.isMissingNode() ? "empty"
            : value.isArray() ? "an array"
            : value.isTextual() ? "a text"
            : value.isNumber() ? "a number"
            : value.toString();
    }

    /** Describes the value of an object that does not fit its column, if one is found. */
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
        return fits ? null : JsonCheck.not(name, value.isTextual() ? value.textValue() : value.toString(), type);
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
}
