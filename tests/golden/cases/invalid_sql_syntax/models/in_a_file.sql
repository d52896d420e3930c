-- The bracket is never closed.
SELECT id, COUNT(
FROM {{ source("orders") }}
