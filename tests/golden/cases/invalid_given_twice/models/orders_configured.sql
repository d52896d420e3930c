{{ config(materialized="virtual_topic", tags=["views"], owner="data") }}
SELECT id, at FROM {{ source("orders") }}
