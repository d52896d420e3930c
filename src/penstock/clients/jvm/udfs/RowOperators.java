package penstock;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.types.*;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Operators whose meaning depends on types that are known only when Spark has analyzed the query.
 *
 * Spark asks for an expression once it knows the types of the arguments, so no row costs more than with the operator
 * itself.
 */
public final class RowOperators {
    static final int DIVIDE = 0;
    static final int MEAN = 1;
    static final int TYPE_OF = 2;
    static final int ENTRIES = 3;

    private RowOperators() {}

    public static void register(SparkSession session) {
        know(session, "penstock_row_divide", DIVIDE);
        know(session, "penstock_row_mean", MEAN);
        know(session, "penstock_row_type_of", TYPE_OF);
        know(session, "penstock_row_entries", ENTRIES);
    }

    private static void know(SparkSession session, String name, int kind) {
        ((org.apache.spark.sql.classic.SparkSession) session).sessionState().functionRegistry()
            .createOrReplaceTempFunction(name, new Operator(kind), "scala_udf");
    }

    /** Ranks integer types by width; 0 for other types. */
    static int width(DataType type) {
        return type instanceof ByteType ? 1
            : type instanceof ShortType ? 2
            : type instanceof IntegerType ? 3
            : type instanceof LongType ? 4
            : 0;
    }

    /** Divides integers without remainder, into the wider of the two types. */
    static Expression divided(Expression one, Expression other) {
        int left = width(one.dataType());
        int right = width(other.dataType());
        if (left == 0 || right == 0) {
            return new Divide(one, other);
        }
        DataType wider = left > right ? one.dataType() : other.dataType();
        return Cast$.MODULE$.apply(new IntegralDivide(one, other), wider, true);
    }

    /** Truncates the average of integers to their type. */
    static Expression meanOf(Expression mean, Expression value) {
        return width(value.dataType()) == 0 ? mean : (Expression) Cast$.MODULE$.apply(mean, value.dataType(), true);
    }

    /** Casts a value that is computed from a number or a date to its type; decimals stay as Spark computes them. */
    static Expression ofType(Expression made, Expression value) {
        DataType type = value.dataType();
        boolean kept = width(type) > 0 || type instanceof FractionalType && !(type instanceof DecimalType)
            || type instanceof DateType;
        return kept ? (Expression) Cast$.MODULE$.apply(made, type, true) : made;
    }

    /** Converts a map or an array to an array of rows: keys and values, the fields of its rows, or single elements. */
    static Expression entries(Expression given) {
        if (given.dataType() instanceof MapType) {
            return new MapEntries(given);
        }
        boolean single = given.dataType() instanceof ArrayType
            && !(((ArrayType) given.dataType()).elementType() instanceof StructType);
        return single ? zipped(new Expression[] {given}) : given;
    }

    /** Converts a map or an array to an array of rows, with the number of each entry after its fields. */
    static Expression numbered(Expression given, Expression numbers) {
        Expression rows = entries(given);
        if (!(rows.dataType() instanceof ArrayType)) {
            return given;
        }
        ArrayType type = (ArrayType) rows.dataType();
        StructField[] fields = ((StructType) type.elementType()).fields();
        Expression[] columns = new Expression[fields.length + 1];
        for (int i = 0; i < fields.length; i++) {
            columns[i] = new GetArrayStructFields(rows, fields[i], i, fields.length, type.containsNull());
        }
        columns[fields.length] = numbers;
        return zipped(columns);
    }

    private static Expression zipped(Expression[] columns) {
        Expression[] names = new Expression[columns.length];
        for (int i = 0; i < columns.length; i++) {
            names[i] = Literal$.MODULE$.apply(i == 0 ? "col" : "col" + i);
        }
        return new ArraysZip(listed(columns), listed(names));
    }

    private static Seq listed(Expression[] expressions) {
        return scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(expressions);
    }

    public static final class Operator extends AbstractFunction1 {
        private final int kind;

        public Operator(int kind) {
            this.kind = kind;
        }

        public Object apply(Object given) {
            Seq operands = (Seq) given;
            Expression one = (Expression) operands.apply(0);
            if (kind == ENTRIES) {
                return operands.length() == 1 ? entries(one) : numbered(one, (Expression) operands.apply(1));
            }
            Expression other = (Expression) operands.apply(1);
            if (kind == TYPE_OF) {
                return ofType(one, other);
            }
            return kind == MEAN ? meanOf(one, other) : divided(one, other);
        }
    }
}
