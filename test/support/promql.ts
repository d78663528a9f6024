import type { Sample } from './metrics.ts'

/** Two looks at the same figures, some seconds apart: what a range of Prometheus is made of. */
export type Scrapes = { before: Sample[]; after: Sample[]; seconds: number; at: Date }

type Labels = Record<string, string>
type Series = { labels: Labels; value: number }
type Value = number | Series[]

/**
 * As much of PromQL as the rules and the dashboard of ops/ use: selectors with matchers, rate, increase, sum, max and min `by`,
 * histogram_quantile, time(), arithmetic, comparisons and `and`. Ranges are the two scrapes, however long they say they are.
 * Throws on anything else, so that a rule is not taken for tested when it was not understood.
 */
export function evaluate(expression: string, scrapes: Scrapes): Value {
  const tokens = tokenize(expression)
  let position = 0
  const peek = () => tokens[position]
  const take = (wanted?: string): string => {
    const token = tokens[position]
    if (token === undefined || (wanted !== undefined && token !== wanted)) {
      throw new Error(`expected ${wanted ?? 'more'} at ${token ?? 'the end'} of ${expression}`)
    }
    position += 1
    return token
  }

  const binary = (operators: Record<string, Operator>, next: () => Value) => (): Value => {
    let left = next()
    for (let token = peek(); token !== undefined && token in operators; token = peek()) {
      const operator = operators[take()] as Operator
      left = operator(left, next())
    }
    return left
  }
  const unary = (): Value => {
    const token = take()
    if (token === '(') {
      const inner = whole()
      take(')')
      return inner
    }
    if (/^[\d.]/.test(token)) return Number(token)
    if (token === 'time') {
      take('(')
      take(')')
      return scrapes.at.getTime() / 1000
    }
    if (token === 'rate' || token === 'increase') {
      take('(')
      const grown = growth(selector(take()), scrapes)
      take(')')
      return token === 'increase'
        ? grown
        : grown.map((one) => ({ ...one, value: one.value / scrapes.seconds }))
    }
    if (token === 'histogram_quantile') {
      take('(')
      const quantile = Number(take())
      take(',')
      const buckets = whole() as Series[]
      take(')')
      return quantiles(quantile, buckets)
    }
    if (token === 'sum' || token === 'max' || token === 'min') return aggregate(token)
    const { name, matches } = selector(token)
    return scrapes.after.filter((one) => one.name === name && matches(one.labels))
  }
  const aggregate = (how: 'sum' | 'max' | 'min'): Value => {
    const by: string[] = []
    if (peek() === 'by') {
      take()
      for (take('('); peek() !== ')'; ) {
        by.push(take())
        if (peek() === ',') take()
      }
      take(')')
    }
    take('(')
    const inner = whole() as Series[]
    take(')')
    const groups = Map.groupBy(inner, ({ labels }) => JSON.stringify(only(labels, by)))
    return [...groups].map(([key, group]) => {
      const values = group.map(({ value }) => value)
      const value =
        how === 'sum' ? values.reduce((total, one) => total + one, 0) : Math[how](...values)
      return { labels: JSON.parse(key), value }
    })
  }
  const selector = (name: string) => {
    const matchers: ((labels: Labels) => boolean)[] = []
    if (peek() === '{') {
      for (take(); peek() !== '}'; ) {
        const [label, operator, text] = [take(), take(), JSON.parse(take()) as string]
        const fits = (value: string) =>
          operator.includes('~') ? new RegExp(`^(?:${text})$`).test(value) : value === text
        matchers.push((labels) => fits(labels[label] ?? '') !== operator.startsWith('!'))
        if (peek() === ',') take()
      }
      take('}')
    }
    if (peek()?.startsWith('[')) take()
    return { name, matches: (labels: Labels) => matchers.every((fits) => fits(labels)) }
  }
  const product = binary(
    { '*': arithmetic((a, b) => a * b), '/': arithmetic((a, b) => a / b) },
    unary,
  )
  const total = binary(
    { '+': arithmetic((a, b) => a + b), '-': arithmetic((a, b) => a - b) },
    product,
  )
  const comparison = binary(
    {
      '>': filter((a, b) => a > b),
      '<': filter((a, b) => a < b),
      '==': filter((a, b) => a === b),
    },
    total,
  )
  const whole: () => Value = binary(
    { and: (left, right) => ((right as Series[]).length > 0 ? left : []) },
    comparison,
  )
  const result = whole()
  if (peek() !== undefined) throw new Error(`${peek()} is not understood in ${expression}`)
  return result
}

/** Names of the metrics in an expression. */
export function metricsIn(expression: string): string[] {
  const plain = expression.replace(/"(?:[^"\\]|\\.)*"|\{[^}]*\}|\bby\s*\([^)]*\)/g, ' ')
  const words = plain.match(/[a-zA-Z_][\w:]*/g) ?? []
  return words.filter((word) => /^(tillbridge|nodejs|process)_/.test(word))
}

type Operator = (left: Value, right: Value) => Value

function tokenize(expression: string): string[] {
  const pattern =
    /\s*("(?:[^"\\]|\\.)*"|\[\w+\]|[a-zA-Z_][\w:]*|\d+(?:\.\d+)?|=~|!~|==|!=|[-+*/(){},=<>])/gy
  const tokens: string[] = []
  let end = 0
  for (let match = pattern.exec(expression); match; match = pattern.exec(expression)) {
    tokens.push(match[1] as string)
    end = pattern.lastIndex
  }
  if (expression.slice(end).trim() !== '')
    throw new Error(`not understood: ${expression.slice(end)}`)
  return tokens
}

function growth(
  { name, matches }: { name: string; matches: (labels: Labels) => boolean },
  { before, after }: Scrapes,
): Series[] {
  const earlier = new Map(
    before.filter((one) => one.name === name).map((one) => [JSON.stringify(one.labels), one.value]),
  )
  return after
    .filter((one) => one.name === name && matches(one.labels))
    .map(({ labels, value }) => ({
      labels,
      value: value - (earlier.get(JSON.stringify(labels)) ?? 0),
    }))
}

function arithmetic(apply: (left: number, right: number) => number): Operator {
  return (left, right) => {
    if (typeof left === 'number' && typeof right === 'number') return apply(left, right)
    const sides = typeof left === 'number' ? (right as Series[]) : left
    return sides.flatMap(({ labels }) => {
      const a = at(left, labels)
      const b = at(right, labels)
      return a === undefined || b === undefined ? [] : [{ labels, value: apply(a, b) }]
    })
  }
}

function filter(holds: (left: number, right: number) => boolean): Operator {
  return (left, right) =>
    (left as Series[]).filter(({ labels, value }) => {
      const other = at(right, labels)
      return other !== undefined && holds(value, other)
    })
}

function at(side: Value, labels: Labels): number | undefined {
  if (typeof side === 'number') return side
  return side.find((one) => JSON.stringify(one.labels) === JSON.stringify(labels))?.value
}

function only(labels: Labels, names: readonly string[]): Labels {
  return Object.fromEntries(names.flatMap((name) => (labels[name] ? [[name, labels[name]]] : [])))
}

/** By the upper end of the bucket that holds it; nothing where nothing was observed. */
function quantiles(quantile: number, buckets: readonly Series[]): Series[] {
  const groups = Map.groupBy(buckets, ({ labels: { le: _, ...rest } }) => JSON.stringify(rest))
  return [...groups].flatMap(([key, group]) => {
    const sorted = group
      .map(({ labels, value }) => ({ le: Number(labels.le?.replace('+Inf', 'Infinity')), value }))
      .sort((a, b) => a.le - b.le)
    const all = sorted.at(-1)?.value ?? 0
    const found = sorted.find(({ value }) => value >= quantile * all)
    return all > 0 && found ? [{ labels: JSON.parse(key), value: found.le }] : []
  })
}
