"""What automation written for the original does, one module for each area.

To add a case, write a function `case_…(original: Original) -> None` in the module of its area (or a new module here:
every module of this package is found by itself). Calls that return without an exception count as *works* in
`docs/reference/client-coverage.md`; a case that fails takes all operations back that only it called. Check the effect
of what you call: what was created is listed with those values, what was deleted is gone, a pod shows it.

    def case_departments(original: Original) -> None:
        made = original.call("DepartmentsApi.create_department", department_creation_request={...})
        listed = original.call("DepartmentsApi.get_departments", filter_by=["name==research"])["departments"]
        assert [each["id"] for each in listed] == [made["id"]]
        original.call("DepartmentsApi.delete_department", department_id=made["id"])

Arguments are JSON under the client's own parameter names; request bodies become the client's request models. The model
of each answer is in `tests/client/answers.py`. What the server never does is tried with `original.never(operation,
status, …)`: its message is the reason in the table. What Fairpool has no meaning for is listed with the reason in
`tests/client/not_applicable.py`. Use names of your own (`audit-1`): all cases share one platform.

To run one module: `FAIRPOOL_CLIENT_CASES=audit .venv/bin/python -m pytest tests/client -q`. To write the table anew:
`make golden`.
"""
