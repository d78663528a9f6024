import { SourceError } from '../types.ts'

export type Footer = { mark: string; count?: number | undefined }

/** Watches for the last line of a file that has one. */
export type FooterWatch = {
  /** Whether a line is the footer; `values` are those of the line. Throws SourceError for what stands behind the footer. */
  isFooter(values: readonly string[], line: number): boolean
  /** Throws SourceError when the footer never came, or tells of another number of records. */
  end(): void
}

export function watchFooter(footer: Footer | undefined): FooterWatch {
  if (!footer) return { isFooter: () => false, end: () => undefined }
  const { mark, count } = footer
  const matches = mark.endsWith('*')
    ? (value: string) => value.startsWith(mark.slice(0, -1))
    : (value: string) => value === mark
  let records = 0
  let hasCome = false
  return {
    isFooter(values, line) {
      if (hasCome) throw new SourceError(`has something behind its footer, at line ${line}`)
      if (!matches((values[0] ?? '').trim())) {
        records += 1
        return false
      }
      hasCome = true
      if (count === undefined) return true
      const told = (values[count - 1] ?? '').trim()
      if (/^\d{1,15}$/.test(told) && Number(told) === records) return true
      throw new SourceError(
        `has ${records} records, but its footer at line ${line} tells of another number (footer.count)`,
      )
    },
    end() {
      if (hasCome) return
      throw new SourceError(
        `has no footer ${JSON.stringify(mark)}: it is cut, or still being written`,
      )
    },
  }
}
