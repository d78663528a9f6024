import { parentPort, workerData } from 'node:worker_threads'
import type { Language } from '../../domain/language.ts'
import { type ClosingFile, closingCsv, closingWorkbook } from './closing-file.ts'

/** What the thread makes, and from what. */
export type FileOrder = { ending: 'csv' | 'xlsx'; file: ClosingFile; language: Language }

const { ending, file, language } = workerData as FileOrder
parentPort?.postMessage(
  ending === 'csv' ? closingCsv(file, language) : await closingWorkbook(file, language),
)
