{% macro currency() %}'{{ var("currency") }}'{% endmacro %}
