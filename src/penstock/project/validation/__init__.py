"""Values become models: other spellings of fields, placeholders for unset variables, mistakes as diagnostics."""
