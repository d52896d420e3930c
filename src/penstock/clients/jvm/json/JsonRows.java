package penstock;

import com.fasterxml.jackson.core.JsonFactory;
import java.io.IOException;
import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ExprUtils;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.json.JacksonParser;
import org.apache.spark.sql.catalyst.util.BadRecordException;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
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
 * Nearly all records are plain, and `PlainJson` reads those in one pass. All others go through the strict check and
 * then to the parser behind Spark's from_json, so that both ways give the same row. The parser gets the bytes
 * themselves; from_json creates a character reader with buffers for each record, and is not part of generated code.
 */
public final class JsonRows {
    private JsonRows() {}

    /**
     * Decodes a binary value to a row, with null for each missing field; null if it is not a row. `check` returns the
     * bytes of a valid value, or null. Without it, only plain values give rows.
     */
    public static Column row(Column value, StructType schema, UDF1 check, boolean registry, boolean envelope) {
        if (ExprUtils.checkJsonSchema(schema).isFailure()) {
            return functions.from_json(value.cast(DataTypes.StringType), schema);  // Spark reports the error in it
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
        private transient PlainJson plain;
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

        /** Prepares the decoder on an executor, which has the settings of the calling session. */
        private void prepare() {
            SQLConf settings = SQLConf.get();
            Object legacy = settings.legacyTimeParserPolicy();
            JsonShape shape = JsonShape.of(schema);
            String zone = settings.sessionLocalTimeZone();
            boolean readable = !legacy.toString().equals("LEGACY") && shape.isPlain();
            plain = readable ? new PlainJson(shape, registry, envelope, zone.equals("UTC")) : null;
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

    /** The text of a record that is not a row. It is not used. */
    static final class NoText extends AbstractFunction1 {
        public Object apply(Object bytes) {
            return UTF8String.EMPTY_UTF8;
        }
    }
}
