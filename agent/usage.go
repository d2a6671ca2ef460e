package agent

import "math"

// AddTokens adds what a program says it used: nothing negative, and never past the
// end of the type.
func AddTokens(sum int64, more ...int64) int64 {
	for _, n := range more {
		switch {
		case n <= 0:
		case sum > math.MaxInt64-n:
			sum = math.MaxInt64
		default:
			sum += n
		}
	}
	return sum
}

// Price is what a program says it cost, or nil when that is no price.
func Price(usd *float64) *float64 {
	if usd == nil || math.IsNaN(*usd) || math.IsInf(*usd, 0) || *usd < 0 {
		return nil
	}
	return usd
}
