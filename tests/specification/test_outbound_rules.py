"""Which URLs and addresses the server may connect to for users and administrators."""

from ipaddress import ip_address

import pytest

from fairpool.control.outbound_rules import OutboundRules, Target, address_problem, hosts_problem, target_of
from fairpool.model.problem import Problem

PUBLIC = OutboundRules(schemes=frozenset({"https", "http"}))
ALLOWED = OutboundRules(hosts=("hooks.example.com", "*.corp.example", "ci.example.com:8443"))
PROVIDER = OutboundRules(schemes=frozenset({"https", "http"}), ports=None, private=True, loopback=True)

HOSTILE = [
    "",
    "hooks.example.com",
    "//hooks.example.com/",
    "/etc/passwd",
    "file:///etc/passwd",
    "ftp://example.com/",
    "gopher://127.0.0.1:25/_HELO",
    "javascript:alert(1)",
    "data:text/plain,x",
    "unix:///run/fairpool/admin.sock",
    "https:example.com",
    "https:/example.com",
    "https:///example.com",
    "https://",
    "https://.",
    "https://:443/",
    "https://user@example.com/",
    "https://user:password@example.com/",
    "https://example.com@127.0.0.1/",
    "https://127.0.0.1:80@example.com/",
    "https://example.com\\@127.0.0.1/",
    "https://example.com\\.evil.example/",
    "https://example.com%2f@127.0.0.1/",
    "https://%31%32%37.0.0.1/",
    "https://example.com%00.evil.example/",
    "https://exa mple.com/",
    " https://example.com/",
    "https://example.com/\r\nHost: evil",
    "https://example.com/a\tb",
    "https://example.com/\x00",
    "https://example.com/\x7f",
    "https://ex\u0430mple.com/",
    "https://\uff11\uff12\uff17.0.0.1/",
    "https://\u2460\u2461\u2466.0.0.1/",
    "https://127\u30020\u30020\u30021/",
    "https://localho\u017ft/",
    "https://e\u200bxample.com/",
    "https://2130706433/",
    "https://017700000001/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://127.0.0.1.",
    "https://127.0.0.01/",
    "https://127.000.000.001/",
    "https://1.2.3.4.5/",
    "https://256.1.1.1/",
    "https://0x/",
    "https://example.0x7f/",
    "https://0/",
    "https://127.0.0.1/",
    "https://127.8.9.10/",
    "https://0.0.0.0/",
    "https://0.1.2.3/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://169.254.1.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://168.63.129.16/",
    "https://100.100.100.200/",
    "https://192.0.0.192/",
    "https://192.0.2.1/",
    "https://198.18.0.1/",
    "https://203.0.113.9/",
    "https://224.0.0.1/",
    "https://239.255.255.250/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://[::]/",
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::127.0.0.1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:8.8.8.8]/",
    "https://[::ffff:0:8.8.8.8]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b::10.0.0.1]/",
    "https://[64:ff9b::169.254.169.254]/",
    "https://[64:ff9b:1::8.8.8.8]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:0808:0808::]/",
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "https://[2606:4700::5efe:7f00:1]/",
    "https://[2606:4700::200:5efe:7f00:1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fec0::1]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",
    "https://[ff02::1]/",
    "https://[2001:db8::1]/",
    "https://[::1",
    "https://[::1]evil.example/",
    "https://[::1].example.com/",
    "https://[v1.x]/",
    "https://example.com:0/",
    "https://example.com:22/",
    "https://example.com:6379/",
    "https://example.com:65536/",
    "https://example.com:-443/",
    "https://example.com:443x/",
    "https://example.com:\u0664\u0664\u0663/",
    "https://example.com:443:443/",
    "https://-example.com/",
    "https://example-.com/",
    "https://exa..mple.com/",
    "https://*.example.com/",
    "https://exam!ple.com/",
    "https://exam$ple.com/",
    "https://" + "a" * 64 + ".com/",
    "https://" + "a." * 130 + "com/",
    "https://example.com/" + "a" * 2048,
]


@pytest.mark.parametrize("url", HOSTILE, ids=lambda url: ascii(url)[:60])
def test_a_hostile_url_is_refused(url: str) -> None:
    problem = target_of(url, PUBLIC)
    assert isinstance(problem, Problem), problem
    assert problem.code.startswith("outbound.")
    assert len(problem.what) < 200


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "header"),
    [
        ("https://hooks.example.com", "hooks.example.com", 443, "/", "hooks.example.com"),
        ("HTTPS://Hooks.Example.COM./a?b=c#d", "hooks.example.com", 443, "/a?b=c", "hooks.example.com"),
        ("http://hooks.example.com:443/", "hooks.example.com", 443, "/", "hooks.example.com:443"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "/", "xn--bcher-kva.example"),
        ("https://8.8.8.8/x", "8.8.8.8", 443, "/x", "8.8.8.8"),
        ("https://[2606:4700:0::1111]/x", "2606:4700::1111", 443, "/x", "[2606:4700::1111]"),
        ("https://[64:ff9b::8.8.8.8]/", "64:ff9b::808:808", 443, "/", "[64:ff9b::808:808]"),
        ("https://a_b.example.com/%20", "a_b.example.com", 443, "/%20", "a_b.example.com"),
        ("https://1.example.com/", "1.example.com", 443, "/", "1.example.com"),
    ],
)
def test_a_public_url_is_read_in_one_way(url: str, host: str, port: int, path: str, header: str) -> None:
    target = target_of(url, PUBLIC)
    assert isinstance(target, Target), target
    assert (target.host, target.port, target.path, target.host_header) == (host, port, path, header)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://hooks.example.com/x", None),
        ("https://HOOKS.example.com./x", None),
        ("https://a.corp.example/", None),
        ("https://a.b.corp.example/", None),
        ("https://ci.example.com:8443/", None),
        ("https://ci.example.com/", "outbound.port"),
        ("https://hooks.example.com:8443/", "outbound.port"),
        ("https://corp.example/", "outbound.host"),
        ("https://evilcorp.example/", "outbound.host"),
        ("https://hooks.example.com.evil.example/", "outbound.host"),
        ("https://example.com/", "outbound.host"),
        ("https://8.8.8.8/", "outbound.host"),
        ("http://hooks.example.com/", "outbound.url"),
    ],
)
def test_only_hosts_that_the_administrator_allowed_are_reached(url: str, code: str | None) -> None:
    answer = target_of(url, ALLOWED)
    assert (answer.code if isinstance(answer, Problem) else None) == code


def test_no_host_is_reached_before_one_is_allowed() -> None:
    assert isinstance(target_of("https://hooks.example.com/", OutboundRules(hosts=())), Problem)


def test_an_allowed_host_that_is_this_machine_is_refused() -> None:
    for host in ("127.0.0.1", "169.254.169.254"):
        assert isinstance(target_of(f"https://{host}/", OutboundRules(hosts=(host,))), Problem)


@pytest.mark.parametrize(
    ("address", "private", "loopback", "is_allowed"),
    [
        ("8.8.8.8", False, False, True),
        ("10.1.2.3", False, False, False),
        ("10.1.2.3", True, False, True),
        ("100.64.0.1", True, False, True),
        ("fd12::1", True, False, True),
        ("127.0.0.1", True, False, False),
        ("::1", True, False, False),
        ("127.0.0.1", False, True, True),
        ("::1", False, True, True),
        ("64:ff9b::a00:1", True, False, True),
        ("64:ff9b::7f00:1", True, False, False),
        ("169.254.169.254", True, True, False),
        ("169.254.7.7", True, True, False),
        ("fe80::1", True, True, False),
        ("fd00:ec2::254", True, True, False),
        ("100.100.100.200", True, True, False),
        ("168.63.129.16", True, True, False),
        ("0.0.0.0", True, True, False),
        ("0.0.0.1", True, True, False),
        ("::", True, True, False),
        ("224.0.0.1", True, True, False),
        ("ff02::1", True, True, False),
        ("255.255.255.255", True, True, False),
        ("::ffff:10.0.0.1", True, True, False),
        ("2002:a00:1::", True, True, False),
    ],
)
def test_addresses_by_what_the_administrator_permits(
    address: str, private: bool, loopback: bool, is_allowed: bool
) -> None:
    rules = OutboundRules(private=private, loopback=loopback)
    problem = address_problem("intranet.example", ip_address(address), rules)
    assert (problem is None) == is_allowed
    assert problem is None or address not in problem.what, "users do not learn what a name means inside"


def test_an_identity_provider_may_be_inside_if_a_setting_says_so() -> None:
    for url in ("http://127.0.0.1:8180/realms/a", "https://10.0.0.7:8443/", "http://[::1]:80/"):
        assert isinstance(target_of(url, PROVIDER), Target)
    assert isinstance(target_of("http://169.254.169.254/", PROVIDER), Problem)


@pytest.mark.parametrize(
    "host", ["a b", "https://x.example", "*", "*.com", "a.*.com", "x:y", "x:0", "X.example", "127.1"]
)
def test_a_host_that_no_url_can_have_is_not_put_on_the_list(host: str) -> None:
    assert hosts_problem(["ok.example", host]) is not None


def test_hosts_that_can_be_put_on_the_list() -> None:
    assert hosts_problem(["hooks.example.com", "*.example.com", "ci.example.com:8443", "10.0.0.5", "intranet"]) is None
