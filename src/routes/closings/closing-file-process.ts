import type { Language } from '../../domain/language.ts'
import { type ClosingFile, closingCsv, closingWorkbook } from './closing-file.ts'

/** A file to make, and from what. */
export type FileRequest = { ending: 'csv' | 'xlsx'; file: ClosingFile; language: Language }

process.once('message', async ({ ending, file, language }: FileRequest) => {
  const made = ending === 'csv' ? closingCsv(file, language) : await closingWorkbook(file, language)
  process.send?.(made, () => process.disconnect())
})
