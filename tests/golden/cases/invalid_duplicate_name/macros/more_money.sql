-- Written again by somebody who did not look.
{% macro euros(cents) %}{{ cents }} * 0.01{% endmacro %}
