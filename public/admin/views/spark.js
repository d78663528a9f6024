import { chart, colorOf } from '../../shared/chart.js'

/** Durations in milliseconds as a line, oldest first, from zero to their highest; the text beside it tells them in figures. */
export function spark(values) {
  if (values.length < 2) return null
  return chart({
    kind: 'spark',
    height: 28,
    data: [values.map((_value, index) => index), values],
    optionsOf: () => ({
      padding: [2, 0, 2, 0],
      cursor: { show: false },
      scales: {
        x: { time: false },
        y: { range: (_chart, _least, top) => [0, Math.max(top, 1)] },
      },
      axes: [{ show: false }, { show: false }],
      series: [
        {},
        {
          stroke: colorOf('--accent'),
          fill: colorOf('--accent-soft'),
          width: 1.5,
          points: { show: false },
        },
      ],
    }),
  })
}
