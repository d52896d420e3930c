{% macro ping(n) %}{{ pong(n) }}{% endmacro %}
{% macro pong(n) %}{{ ping(n) }}{% endmacro %}
