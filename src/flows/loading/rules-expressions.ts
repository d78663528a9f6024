import type { Reason } from '../../texts/reason.ts'
import { nearestWord } from '../definition/did-you-mean.ts'
import type { Path, PathFinding } from '../definition/findings.ts'
import type { Flow } from '../definition/schema.ts'
import { compileJsonata } from '../mapping/evaluate-jsonata.ts'
import { ExpressionError, lineAndColumn } from '../mapping/expression-error.ts'

/** JSONata's built-in functions without `$eval`: an expression must not execute code from a record. */
export const functionNames: ReadonlySet<string> = new Set(
  [
    'sum count max min average string substring substringBefore substringAfter lowercase uppercase length trim pad',
    'match contains replace split join formatNumber formatBase formatInteger parseInteger number floor ceil round abs',
    'sqrt power random boolean not map zip filter single reduce sift keys lookup append exists spread merge reverse each',
    'error assert type sort shuffle distinct base64encode base64decode encodeUrlComponent encodeUrl decodeUrlComponent',
    'decodeUrl toMillis fromMillis clone now millis',
  ].flatMap((line) => line.split(' ')),
)

/** Limit of all expressions together: compiling a thousand characters takes a millisecond. */
const maxCharacters = 49_152

/** Finds invalid JSONata, and names of undefined variables and functions, for which JSONata would return no value. */
export function expressionFindings({ item, destinations, source }: Flow): PathFinding[] {
  const found: Written[] = [
    { path: ['item', 'filter'], text: item.filter },
    ...destinations.flatMap((destination, index) =>
      expressionsOf(destination, ['destinations', index]),
    ),
  ]
  if (source.type === 'http' && source.paging.type === 'cursor') {
    found.push({ path: ['source', 'paging', 'next'], text: source.paging.next })
  }
  let characters = 0
  return found.flatMap(({ path, text, given }) => {
    if (text === undefined) return []
    characters += text.length
    if (characters <= maxCharacters) return findingsOf(path, text, given)
    return [{ path, why: { code: 'TOO_MANY_EXPRESSIONS', data: { most: maxCharacters } } }]
  })
}

/** An expression of the file, and the variables that it gets. */
type Written = { path: Path; text: string | undefined; given?: readonly string[] }

function expressionsOf(destination: Flow['destinations'][number], under: Path): Written[] {
  const own = [
    { path: [...under, 'map'], text: destination.map },
    { path: [...under, 'filter'], text: destination.filter },
  ]
  if (destination.type !== 'http') return own
  const { request, batch, remember, find = [], answers = [] } = destination
  const memory = (path: Path, rules: Readonly<Record<string, string>> | undefined) =>
    Object.entries(rules ?? {}).map(([name, text]) => {
      return { path: [...under, ...path, name], text, given: ['pk', 'headers'] }
    })
  return [
    ...own,
    ...find.map(({ body }) => ({ path: [...under, 'find', 'body'], text: body })),
    ...(['request', 'create', 'delete'] as const).map((name) => ({
      path: [...under, name, 'body'],
      text: destination[name]?.body,
    })),
    ...(request.parts ?? []).map((text, index) => ({
      path: [...under, 'request', 'parts', index],
      text,
    })),
    ...memory(['remember'], remember),
    ...find.flatMap((one) => memory(['find', 'remember'], one.remember)),
    ...answers.map(({ when }, index) => ({
      path: [...under, 'answers', index, 'when'],
      text: when,
    })),
    { path: [...under, 'batch', 'body'], text: batch?.body },
    { path: [...under, 'batch', 'answers'], text: batch?.answers },
  ]
}

function findingsOf(path: Path, text: string, given: readonly string[] = []): PathFinding[] {
  let ast: unknown
  try {
    // Not compileExpression, because checking a file needs no thread.
    ast = compileJsonata(text).ast
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    const { why: what, position } = error
    if (position === undefined) return [{ path, why: { code: 'NO_JSONATA', data: { what } } }]
    // An error at the end means that something is missing. The trailing blanks are not its position.
    const offset = Math.min(position, text.trimEnd().length)
    const data = { what, place: placeIn(text, offset) }
    return [{ path, why: { code: 'NO_JSONATA', data } }]
  }
  const { used, bound } = variablesOf(ast)
  const known = new Set([...functionNames, ...bound, ...given])
  return used
    .filter(({ name }) => !known.has(name))
    .map(({ name, end }): PathFinding => {
      const offset = Math.max(end - name.length - 1, 0)
      const place = placeIn(text, offset)
      if (name === 'eval') {
        return { path, why: { code: 'USES_EVAL', data: { place } } }
      }
      const meant = nearestWord(name, [...known])
      const why: Reason = meant
        ? { code: 'USES_MISSPELT', data: { name, place, meant } }
        : { code: 'USES_UNKNOWN', data: { name, place } }
      return { path, why }
    })
}

function placeIn(text: string, offset: number): Reason {
  const { line, column } = lineAndColumn(text, offset)
  const isLong = text.trim().includes('\n')
  return { code: 'IN_EXPRESSION', data: { line: isLong ? line : undefined, column } }
}

type Variable = { name: string; end: number }

/** The variables of a syntax tree. `bound` are those that the expression assigns anywhere. */
function variablesOf(ast: unknown): { used: Variable[]; bound: Set<string> } {
  const used: Variable[] = []
  const bound = new Set<string>()
  const seen = new Set<object>()
  const visit = (node: unknown): void => {
    if (node === null || typeof node !== 'object' || seen.has(node)) return
    seen.add(node)
    const { type, value, position, lhs, focus, index } = node as Record<string, unknown>
    if (type === 'variable' && typeof value === 'string' && value !== '' && value !== '$') {
      used.push({ name: value, end: typeof position === 'number' ? position : 0 })
    }
    if (type === 'bind') bindAll([lhs])
    if (type === 'lambda') bindAll((node as { arguments?: unknown }).arguments)
    // Variables of `@$name` and `#$name` in a step.
    for (const name of [focus, index]) if (typeof name === 'string') bound.add(name)
    for (const part of Object.values(node)) visit(part)
  }
  const bindAll = (variables: unknown): void => {
    if (!Array.isArray(variables)) return
    for (const variable of variables as { value?: unknown }[]) bound.add(String(variable.value))
  }
  visit(ast)
  return { used, bound }
}
