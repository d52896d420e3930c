-- A macro that is never closed.
{% macro dollars(cents) %}
  {{ cents }} / 100
