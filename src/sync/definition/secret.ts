import { inspect } from 'node:util'

const mask = '***'

/**
 * A text of a flow file after its references were replaced. It never prints: only `reveal` gives the value. `template`
 * is what the file says, references and all, and may be shown: a literal password in it is an error of the file.
 */
export class Secret {
  readonly template: string
  readonly #value: string

  constructor(value: string, template: string) {
    this.#value = value
    this.template = template
  }

  reveal(): string {
    return this.#value
  }

  toString(): string {
    return mask
  }

  toJSON(): string {
    return mask
  }

  [inspect.custom](): string {
    return mask
  }
}
