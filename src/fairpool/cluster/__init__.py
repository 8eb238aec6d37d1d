"""The control loop of a cluster: observe, settle, expand, plan, record, act, report."""
