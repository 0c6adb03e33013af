// In place of two scalers that Longshore does not use, and whose modules not every Go proxy has.

package scalers

import (
	"errors"

	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

var errLeftOut = errors.New("this build does not have the scaler")

func NewNewRelicScaler(*scalersconfig.ScalerConfig) (Scaler, error) {
	return nil, errLeftOut
}

func NewSolarWindsScaler(*scalersconfig.ScalerConfig) (Scaler, error) {
	return nil, errLeftOut
}
