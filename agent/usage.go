package agent

import (
	"math"

	"nod"
)

// AddTokens is nod.AddTokens.
func AddTokens(sum int64, more ...int64) int64 { return nod.AddTokens(sum, more...) }

// Price is what a program says it cost, or nil when that is no price.
func Price(usd *float64) *float64 {
	if usd == nil || math.IsNaN(*usd) || math.IsInf(*usd, 0) || *usd < 0 {
		return nil
	}
	return usd
}
