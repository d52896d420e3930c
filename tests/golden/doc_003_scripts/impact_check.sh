# In CI, check if critical exposures are affected
affected=$(penstock lineage --model $CHANGED_MODEL --downstream --format json | \
  jq '.nodes[] | select(.tags | contains(["critical"]))')

if [ -n "$affected" ]; then
  echo "⚠️ Critical systems affected - require approval"
  exit 1
fi
