/** `expires_at` as `expiresAt`. */
export type CamelCase<Name> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name

/** `expiresAt` as `expires_at`. */
type SnakeCase<Name> = Name extends `${infer First}${infer Rest}`
  ? First extends Lowercase<First>
    ? `${First}${SnakeCase<Rest>}`
    : `_${Lowercase<First>}${SnakeCase<Rest>}`
  : Name

/** The fields of a value under the names of an answer. Values inside them stay as they are. */
export function snakeCased<Value extends object>(
  value: Value,
): { [Name in keyof Value as SnakeCase<Name>]: Value[Name] } {
  return renamed(value, snakeCase) as never
}

/** The fields of a request under our names. Values inside them stay as they are. */
export function camelCased<Value extends object>(
  value: Value,
): { [Name in keyof Value as CamelCase<Name>]: Value[Name] } {
  return renamed(value, camelCase) as never
}

function renamed(value: object, nameOf: (name: string) => string): object {
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [nameOf(name), field]))
}

export const camelCase = remembered((name) =>
  name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
)

const snakeCase = remembered((name) =>
  name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
)

/** The names are those of schemas and types, so there are few. */
function remembered(convert: (name: string) => string): (name: string) => string {
  const known = new Map<string, string>()
  return (name) => {
    const found = known.get(name) ?? convert(name)
    known.set(name, found)
    return found
  }
}
