package penstock;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.types.DataTypes;

/** Digests that neither Java nor Spark provides: Keccak-256 and XXH3 with 128 bits, as functions of a Spark session. */
public final class RowDigests {
    private RowDigests() {}

    public static void register(SparkSession session) {
        session.udf().register("penstock_row_keccak256", (UDF1) new Keccak(), DataTypes.StringType);
        session.udf().register("penstock_row_xxhash", (UDF1) new Xxh3(), DataTypes.StringType);
    }

    static final char[] DIGITS = "0123456789abcdef".toCharArray();

    static String hexadecimal(byte[] bytes) {
        char[] found = new char[bytes.length * 2];
        for (int place = 0; place < bytes.length; place++) {
            found[2 * place] = DIGITS[(bytes[place] >> 4) & 15];
            found[2 * place + 1] = DIGITS[bytes[place] & 15];
        }
        return new String(found);
    }

    /** Decodes hexadecimal digits; null if they are invalid, or not in pairs. */
    static byte[] bytes(String digits) {
        if (digits.length() % 2 != 0) {
            return null;
        }
        byte[] found = new byte[digits.length() / 2];
        for (int place = 0; place < found.length; place++) {
            int high = Character.digit(digits.charAt(2 * place), 16);
            int low = Character.digit(digits.charAt(2 * place + 1), 16);
            if (high < 0 || low < 0) {
                return null;
            }
            found[place] = (byte) (high << 4 | low);
        }
        return found;
    }

    /** Keccak-256, as it was before it became SHA-3. A text that begins with 0x represents its bytes. */
    public static final class Keccak implements UDF1 {
        public Object call(Object value) {
            if (value == null) {
                return null;
            }
            String text = (String) value;
            byte[] input = text.startsWith("0x") ? bytes(text.substring(2)) : text.getBytes(StandardCharsets.UTF_8);
            return input == null ? null : "0x" + hexadecimal(keccak256(input));
        }
    }

    static final int RATE = 136;
    static final long[] ROUNDS = {
        0x0000000000000001L, 0x0000000000008082L, 0x800000000000808AL, 0x8000000080008000L, 0x000000000000808BL,
        0x0000000080000001L, 0x8000000080008081L, 0x8000000000008009L, 0x000000000000008AL, 0x0000000000000088L,
        0x0000000080008009L, 0x000000008000000AL, 0x000000008000808BL, 0x800000000000008BL, 0x8000000000008089L,
        0x8000000000008003L, 0x8000000000008002L, 0x8000000000000080L, 0x000000000000800AL, 0x800000008000000AL,
        0x8000000080008081L, 0x8000000000008080L, 0x0000000080000001L, 0x8000000080008008L
    };

    static byte[] keccak256(byte[] input) {
        long[] state = new long[25];
        byte[] block = new byte[RATE];
        int from = 0;
        while (input.length - from >= RATE) {
            absorb(state, input, from);
            from += RATE;
        }
        System.arraycopy(input, from, block, 0, input.length - from);
        block[input.length - from] = 1;
        block[RATE - 1] |= (byte) 0x80;
        absorb(state, block, 0);
        byte[] found = new byte[32];
        for (int place = 0; place < 32; place++) {
            found[place] = (byte) (state[place / 8] >>> (8 * (place % 8)));
        }
        return found;
    }

    private static void absorb(long[] state, byte[] input, int from) {
        for (int lane = 0; lane < RATE / 8; lane++) {
            state[lane] ^= long64(input, from + 8 * lane);
        }
        long[] column = new long[5];
        for (int round = 0; round < 24; round++) {
            for (int x = 0; x < 5; x++) {
                column[x] = state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20];
            }
            for (int x = 0; x < 5; x++) {
                long mixed = column[(x + 4) % 5] ^ Long.rotateLeft(column[(x + 1) % 5], 1);
                for (int y = 0; y < 25; y += 5) {
                    state[x + y] ^= mixed;
                }
            }
            long carried = state[1];
            int x = 1;
            int y = 0;
            for (int step = 0; step < 24; step++) {
                int next = (2 * x + 3 * y) % 5;
                x = y;
                y = next;
                long kept = state[x + 5 * y];
                state[x + 5 * y] = Long.rotateLeft(carried, (step + 1) * (step + 2) / 2 % 64);
                carried = kept;
            }
            for (int row = 0; row < 25; row += 5) {
                System.arraycopy(state, row, column, 0, 5);
                for (int at = 0; at < 5; at++) {
                    state[row + at] = column[at] ^ (~column[(at + 1) % 5] & column[(at + 2) % 5]);
                }
            }
            state[0] ^= ROUNDS[round];
        }
    }

    /** XXH3 with 128 bits and no seed, in 32 hexadecimal digits. */
    public static final class Xxh3 implements UDF1 {
        public Object call(Object value) {
            if (value == null) {
                return null;
            }
            long[] found = xxh3(((String) value).getBytes(StandardCharsets.UTF_8));
            byte[] bytes = new byte[16];
            for (int place = 0; place < 16; place++) {
                bytes[place] = (byte) (found[1 - place / 8] >>> (56 - 8 * (place % 8)));
            }
            return hexadecimal(bytes);
        }
    }

    static final long P32_1 = 0x9E3779B1L;
    static final long P32_2 = 0x85EBCA77L;
    static final long P32_3 = 0xC2B2AE3DL;
    static final long P64_1 = 0x9E3779B185EBCA87L;
    static final long P64_2 = 0xC2B2AE3D27D4EB4FL;
    static final long P64_3 = 0x165667B19E3779F9L;
    static final long P64_4 = 0x85EBCA77C2B2AE63L;
    static final long P64_5 = 0x27D4EB2F165667C5L;
    static final long LOW_32 = 0xFFFFFFFFL;
    static final int STRIPE = 64;
    static final byte[] SECRET = bytes(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
        + "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
        + "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
        + "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e");

    /** Returns the lower half of the digest, and the upper one. */
    static long[] xxh3(byte[] input) {
        int length = input.length;
        if (length > 240) {
            return ofMany(input);
        }
        if (length > 16) {
            return ofSome(input);
        }
        if (length > 8) {
            long low = long64(input, 0);
            long high = long64(input, length - 8);
            long first = low ^ high ^ long64(SECRET, 32) ^ long64(SECRET, 40);
            long half = first * P64_1 + ((long) (length - 1) << 54);
            long other = high ^ long64(SECRET, 48) ^ long64(SECRET, 56);
            long upper = upper(first, P64_1) + other + (other & LOW_32) * (P32_2 - 1);
            half ^= Long.reverseBytes(upper);
            return new long[] {mixed(half * P64_2), mixed(upper(half, P64_2) + upper * P64_2)};
        }
        if (length > 3) {
            long keyed = (long32(input, 0) | long32(input, length - 4) << 32) ^ long64(SECRET, 16) ^ long64(SECRET, 24);
            long factor = P64_1 + ((long) length << 2);
            long low = keyed * factor;
            long high = upper(keyed, factor) + (low << 1);
            low ^= high >>> 3;
            low = (low ^ low >>> 35) * 0x9FB21C651E98DF25L;
            return new long[] {low ^ low >>> 28, mixed(high)};
        }
        if (length > 0) {
            int low = (input[0] & 255) << 16 | (input[length >> 1] & 255) << 24 | (input[length - 1] & 255) | length << 8;
            int high = Integer.rotateLeft(Integer.reverseBytes(low), 13);
            long flipped = long32(SECRET, 0) ^ long32(SECRET, 4);
            long other = long32(SECRET, 8) ^ long32(SECRET, 12);
            return new long[] {stirred(low & LOW_32 ^ flipped), stirred(high & LOW_32 ^ other)};
        }
        return new long[] {
            stirred(long64(SECRET, 64) ^ long64(SECRET, 72)), stirred(long64(SECRET, 80) ^ long64(SECRET, 88))
        };
    }

    private static long[] ofSome(byte[] input) {
        int length = input.length;
        long[] sum = {length * P64_1, 0};
        if (length <= 128) {
            for (int pair = (length - 1) / 32; pair >= 0; pair--) {
                add(sum, input, 16 * pair, length - 16 * (pair + 1), 32 * pair);
            }
        } else {
            for (int round = 0; round < length / 32; round++) {
                add(sum, input, 32 * round, 32 * round + 16, round < 4 ? 32 * round : 3 + 32 * (round - 4));
                if (round == 3) {
                    sum[0] = mixed(sum[0]);
                    sum[1] = mixed(sum[1]);
                }
            }
            add(sum, input, length - 16, length - 32, 103);
        }
        return new long[] {
            mixed(sum[0] + sum[1]), -mixed(sum[0] * P64_1 + sum[1] * P64_4 + length * P64_2)
        };
    }

    private static void add(long[] sum, byte[] input, int one, int other, int secret) {
        sum[0] += folded(input, one, secret);
        sum[0] ^= long64(input, other) + long64(input, other + 8);
        sum[1] += folded(input, other, secret + 16);
        sum[1] ^= long64(input, one) + long64(input, one + 8);
    }

    private static long folded(byte[] input, int from, int secret) {
        return product(long64(input, from) ^ long64(SECRET, secret), long64(input, from + 8) ^ long64(SECRET, secret + 8));
    }

    private static long[] ofMany(byte[] input) {
        int length = input.length;
        long[] lanes = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
        int stripes = (length - 1) / STRIPE;
        for (int stripe = 0; stripe < stripes; stripe++) {
            gather(lanes, input, stripe * STRIPE, stripe % 16 * 8);
            if (stripe % 16 == 15) {
                for (int lane = 0; lane < 8; lane++) {
                    long value = lanes[lane];
                    lanes[lane] = (value ^ value >>> 47 ^ long64(SECRET, 128 + 8 * lane)) * P32_1;
                }
            }
        }
        gather(lanes, input, length - STRIPE, 121);
        return new long[] {merged(lanes, 11, length * P64_1), merged(lanes, 117, ~(length * P64_2))};
    }

    private static void gather(long[] lanes, byte[] input, int from, int secret) {
        for (int lane = 0; lane < 8; lane++) {
            long value = long64(input, from + 8 * lane);
            long keyed = value ^ long64(SECRET, secret + 8 * lane);
            lanes[lane ^ 1] += value;
            lanes[lane] += (keyed & LOW_32) * (keyed >>> 32);
        }
    }

    private static long merged(long[] lanes, int secret, long start) {
        long found = start;
        for (int lane = 0; lane < 8; lane += 2) {
            found += product(
                lanes[lane] ^ long64(SECRET, secret + 8 * lane), lanes[lane + 1] ^ long64(SECRET, secret + 8 * lane + 8));
        }
        return mixed(found);
    }

    private static long mixed(long value) {
        long found = (value ^ value >>> 37) * 0x165667919E3779F9L;
        return found ^ found >>> 32;
    }

    private static long stirred(long value) {
        long found = (value ^ value >>> 33) * P64_2;
        found = (found ^ found >>> 29) * P64_3;
        return found ^ found >>> 32;
    }

    /** Combines both halves of a product with XOR. */
    private static long product(long one, long other) {
        return one * other ^ upper(one, other);
    }

    private static long upper(long one, long other) {
        return Math.multiplyHigh(one, other) + (one >> 63 & other) + (other >> 63 & one);
    }

    private static long long32(byte[] bytes, int from) {
        return bytes[from] & 255L | (bytes[from + 1] & 255L) << 8 | (bytes[from + 2] & 255L) << 16
            | (bytes[from + 3] & 255L) << 24;
    }

    private static long long64(byte[] bytes, int from) {
        return long32(bytes, from) | long32(bytes, from + 4) << 32;
    }
}
