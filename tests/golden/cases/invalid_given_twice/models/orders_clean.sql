SELECT id, at FROM {{ source("orders") }}
