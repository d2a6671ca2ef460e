package agent

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestTokensNeverShrinkAndNeverOverflow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := int64(0)
		for _, n := range rapid.SliceOf(rapid.Int64()).Draw(t, "said") {
			was := sum
			if sum = AddTokens(sum, n); sum < was || sum < 0 {
				t.Fatalf("%d and %d are %d", was, n, sum)
			}
		}
	})
	if got := AddTokens(1, 2, -5, 3); got != 6 {
		t.Errorf("%d", got)
	}
}

func TestWhatIsNoPriceIsNone(t *testing.T) {
	for _, usd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.01} {
		if got := Price(&usd); got != nil {
			t.Errorf("%v is %v", usd, *got)
		}
	}
	zero := 0.0
	if Price(nil) != nil || Price(&zero) != &zero {
		t.Error("a price was changed")
	}
}
