package store

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestHotQueriesUseAnIndex: what runs on every delivery, lease and tick must not
// read whole tables, which only grow.
func TestHotQueriesUseAnIndex(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "nod.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, query := range map[string]string{
		"accept":        acceptQuery,
		"lease":         leaseQuery,
		"due effects":   dueQuery,
		"late":          lateQuery,
		"wait":          waitStreamQuery,
		"standing":      standingQuery,
		"chain head":    headQuery,
		"open of a run": roomQuery,
		"task of issue": taskOfQuery,
		"unseen":        unseenQuery,
		"spending":      spendingQuery,
		"usage":         usageQuery,
		"refused hosts": refusedQuery,
	} {
		args := make([]any, 12)
		for i := range args {
			args[i] = 1
		}
		steps, err := list(t.Context(), s.readers, func(r scanner) (detail string, err error) {
			var id, parent, unused int
			err = r.Scan(&id, &parent, &unused, &detail)
			return detail, err
		}, "EXPLAIN QUERY PLAN "+query, args[:parameters(query)]...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, step := range steps {
			// The last link is read backwards by its row id and stops at the first row.
			if table := strings.HasPrefix(step, "SCAN "); table && !strings.Contains(step, "USING") && !strings.HasSuffix(step, "CONSTANT ROW") &&
				step != "SCAN audit_chain" && step != "SCAN twin" {
				t.Errorf("%s reads a whole table: %s\n%s", name, step, strings.Join(steps, "\n"))
			}
		}
		if len(steps) == 0 {
			t.Errorf("%s has no plan", name)
		}
	}
}

// parameters counts those of a query.
func parameters(query string) int {
	numbered := regexp.MustCompile(`\?([0-9]+)`).FindAllStringSubmatch(query, -1)
	if len(numbered) == 0 {
		return strings.Count(query, "?")
	}
	highest := 0
	for _, m := range numbered {
		n, err := strconv.Atoi(m[1])
		if err == nil {
			highest = max(highest, n)
		}
	}
	return highest
}
