package penstock;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;

import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local file system with permissions set by Java. Without its native library, Hadoop runs chmod. */
public final class LocalFiles extends LocalFileSystem {

    public LocalFiles() {
        super(new Raw());
    }

    public static final class Raw extends RawLocalFileSystem {

        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            try {
                Files.setPosixFilePermissions(
                        pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
            } catch (UnsupportedOperationException withoutPermissions) {
                super.setPermission(path, permission);
            }
        }
    }
}
