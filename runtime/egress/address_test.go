package egress

import (
	"net/netip"
	"testing"
)

// TestEveryNonPublicRangeIsRefused names first, last and telling addresses of
// each range, apart from the table that is tested.
func TestEveryNonPublicRangeIsRefused(t *testing.T) {
	for _, s := range []string{
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "100.100.100.200",
		"127.0.0.0", "127.0.0.1", "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255",
		"172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.192", "192.0.0.255", "192.0.2.0", "192.0.2.255",
		"192.88.99.0", "192.88.99.255", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255",
		"198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255", "224.0.0.0", "239.255.255.255",
		"240.0.0.0", "255.255.255.254", "255.255.255.255",

		"::", "::1", "::7f00:1", "::127.0.0.1", "::ffff:ffff", "::ffff:0:127.0.0.1", "::ffff:0:808:808",
		"64:ff9b::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::808:808", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
		"100::", "100::ffff:ffff:ffff:ffff", "2001::", "2001:0:7f00:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:10::", "2001:20::",
		"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2002::", "2002:7f00:1::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"fc00::", "fd00:ec2::254", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe80::", "fe80::1%eth0", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ff00::", "ff02::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"1::1", "4000::1", "8000::1", "fe00::1", "2606:4700::1111%eth0",

		// Unmapped first, as the proxy does, these are the addresses inside.
		"::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:100.64.0.1",
	} {
		if public(netip.MustParseAddr(s).Unmap()) {
			t.Errorf("%s counts as public", s)
		}
	}
	if public(netip.MustParseAddr("::ffff:8.8.8.8")) {
		t.Error("a mapped address counts as public before it is unmapped")
	}
	if public(netip.Addr{}) {
		t.Error("the zero address counts as public")
	}
}

func TestNeighboursOfTheRangesArePublic(t *testing.T) {
	for _, s := range []string{
		"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0",
		"192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255",
		"198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "8.8.8.8",
		"2000::1", "2001:200::", "2001:db7:ffff::", "2001:db9::", "2003::", "2606:4700::1111", "2a00:1450::1", "3ffe:ffff::", "::ffff:8.8.8.8",
	} {
		if !public(netip.MustParseAddr(s).Unmap()) {
			t.Errorf("%s does not count as public", s)
		}
	}
}

func TestHostAddressesHoldLoopback(t *testing.T) {
	own, err := hostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		if a.IsLoopback() {
			return
		}
	}
	t.Errorf("no loopback address among %v", own)
}
