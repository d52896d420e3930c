SELECT id FROM {{ source("orders") }}
