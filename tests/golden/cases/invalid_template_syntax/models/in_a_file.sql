SELECT id
{% for name in ["amount" %}, {{ name }}{% endfor %}
FROM {{ source("orders") }}
