import { ApiError, type ErrorItem } from './errors.ts'

export type Fields = Record<string, unknown>

const messages: Record<string, string> = {
  required_properties: 'Some required properties are missing.',
  unsupported_properties: 'Some properties are not supported.',
  minimum_properties: 'The object has fewer properties than allowed.',
  property_type: 'Some properties have the wrong type.',
  property_value: 'Some properties have an invalid value.',
  minimum_items: 'The list has fewer items than allowed.',
  maximum_items: 'The list has more items than allowed.',
}

export function isRecord(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Collects the errors of a body, then throws one 400 with an entry for each code (provider facts 0.5 and 2.1). */
export class Problems {
  readonly found = new Map<string, string[]>()

  add(code: string, detail: string): void {
    this.found.set(code, [...(this.found.get(code) ?? []), detail])
  }

  /** The value as a record, its keys checked; undefined when it is not one. */
  record(value: unknown, path: string, required: string[], optional: string[]): Fields | undefined {
    if (!isRecord(value)) {
      this.add('property_type', `${path} must be an object`)
      return undefined
    }
    const dot = path === 'body' ? '' : `${path}.`
    for (const key of Object.keys(value)) {
      if (!required.includes(key) && !optional.includes(key)) {
        this.add('unsupported_properties', `${dot}${key} is not supported`)
      }
    }
    for (const key of required) {
      if (!Object.hasOwn(value, key)) this.add('required_properties', `${dot}${key} is required`)
    }
    return value
  }

  /** A list of exactly one element: payments, terminals, refunded transactions. */
  single(value: unknown, path: string): unknown {
    if (!Array.isArray(value)) {
      this.add('property_type', `${path} must be an array`)
      return undefined
    }
    if (value.length === 0) this.add('minimum_items', `${path} must have at least 1 item`)
    if (value.length > 1) this.add('maximum_items', `${path} must have at most 1 item`)
    return value[0]
  }

  /** A text member; undefined when absent or wrong. */
  text(
    fields: Fields | undefined,
    key: string,
    path: string,
    accepts: (text: string) => boolean = () => true,
  ): string | undefined {
    const value = fields !== undefined && Object.hasOwn(fields, key) ? fields[key] : undefined
    if (value === undefined) return undefined
    if (typeof value !== 'string') this.add('property_type', `${path} must be a string`)
    else if (!accepts(value)) this.add('property_value', `${path} is not valid`)
    else return value
    return undefined
  }

  throwIfAny(): void {
    if (this.found.size === 0) return
    const items: ErrorItem[] = [...this.found].map(([code, details]) => ({
      code,
      message: messages[code] ?? code,
      details,
    }))
    throw new ApiError(400, items)
  }
}
