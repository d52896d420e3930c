package penstock;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Scans bytes of JSON once from front to back, and keeps the keys of the open objects. */
abstract class JsonBytes {
    static final long NO_TIME = Long.MIN_VALUE;

    final JsonShape shape;
    final boolean registry;
    final boolean envelope;
    byte[] data;
    int at;
    int end;
    int depth;
    int keys;
    int[] keyFrom = new int[64];
    int[] keyTo = new int[64];
    int[] keyHash = new int[64];

    JsonBytes(JsonShape shape, boolean registry, boolean envelope) {
        this.shape = shape;
        this.registry = registry;
        this.envelope = envelope;
    }

    /** Starts on a value. Returns whether its first character opens an object. */
    final boolean begin(byte[] value) {
        data = value;
        end = value.length;
        at = start(value, registry);
        depth = 0;
        keys = 0;
        blanks();
        return at < end && value[at] == '{';
    }

    /** Returns the start of the text: after the five bytes of a schema registry, if the value has them. */
    static int start(byte[] value, boolean registry) {
        return registry && value.length > 0 && value[0] == 0 ? Math.min(5, value.length) : 0;
    }

    final void blanks() {
        while (at < end) {
            byte next = data[at];
            if (next > ' ' || (next != ' ' && next != '\n' && next != '\r' && next != '\t')) {
                return;
            }
            at++;
        }
    }

    /** Adds a key of the innermost object. Returns its index in the list. */
    final int add(int from, int to, int hash) {
        if (keys == keyHash.length) {
            keyFrom = Arrays.copyOf(keyFrom, keys * 2);
            keyTo = Arrays.copyOf(keyTo, keys * 2);
            keyHash = Arrays.copyOf(keyHash, keys * 2);
        }
        keyFrom[keys] = from;
        keyTo[keys] = to;
        keyHash[keys] = hash;
        return keys++;
    }

    final String text(int from, int to) {
        return new String(data, from, to - from, StandardCharsets.UTF_8);
    }

    /**
     * Converts a number of seconds, milliseconds, microseconds or nanoseconds since 1970 to microseconds. The size of
     * the number determines the unit. A number between the ranges of two units gives NO_TIME.
     */
    static long epochMicros(long number) {
        long size = number == Long.MIN_VALUE ? Long.MAX_VALUE : Math.abs(number);
        if (size < 10000000000L) {
            return number * 1000000L;
        }
        if (size >= 100000000000L && size < 10000000000000L) {
            return number * 1000L;
        }
        if (size >= 100000000000000L && size < 10000000000000000L) {
            return number;
        }
        return size >= 100000000000000000L ? Math.floorDiv(number, 1000L) : NO_TIME;
    }
}
