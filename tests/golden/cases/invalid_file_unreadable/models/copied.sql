SELECT id -- café
FROM {{ source("orders") }}
