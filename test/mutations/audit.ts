import type { Mistake } from './mistake.ts'

/** The audit log, and what a start must not forget. */
export const audit: readonly Mistake[] = [
  {
    name: 'no checkpoint is written to the log',
    file: 'src/payments/audit/seal-activity.ts',
    find: "else if (head.seq > 0) log.info({ seq: head.seq, hash: head.hash }, 'activity log checkpoint')",
    replace: 'else if (head.seq > 0) return',
    noticedBy: {
      tests: [['test/payment/audit-chain.test.ts', 'sealed a second after it was written']],
    },
  },
  {
    name: 'checkpoints are written once only',
    file: 'src/payments/audit/seal-activity.ts',
    find: 'if (now - lastCheckpoint < checkpointMs) return',
    replace: 'if (lastCheckpoint > 0) return',
    noticedBy: {
      tests: [['test/payment/audit-chain.test.ts', 'sealed a second after it was written']],
    },
  },
  {
    name: 'a row that the service did not write is sealed',
    file: 'src/payments/audit/seal-activity.ts',
    find: 'if (!isSigned(auditKey, entry)) {',
    replace: 'if (entry.mac === undefined) {',
    noticedBy: { tests: [['test/payment/audit-chain.test.ts', 'neither listed nor sealed']] },
  },
  {
    name: 'a checkpoint that the log does not hold is passed over',
    file: 'src/payments/audit/verify-activity.ts',
    find: 'checkpoint.seq < start.seq || this.#isCheckpointFound) return',
    replace: 'checkpoint.seq < start.seq || !this.#isCheckpointFound) return',
    noticedBy: {
      tests: [['test/payment/audit-tampering.test.ts', 'a log that was set back as a whole']],
    },
  },
  {
    name: 'rows beyond the head are not looked for',
    file: 'src/payments/audit/verify-activity.ts',
    find: 'if (!this.#trusted || this.#isFull()) return',
    replace: 'if (!this.#trusted || !this.#isFull()) return',
    noticedBy: { tests: [['test/payment/audit-tampering.test.ts', 'the check detects that']] },
  },
  {
    name: 'an entry that was changed is deleted',
    file: 'src/payments/audit/delete-old-entries.ts',
    find: "const wrong = isNext ? whatIsWrong(auditKey, head, one, previous) : 'an entry is missing'",
    replace: 'const wrong = isNext ? undefined : String(previous.seq)',
    noticedBy: { tests: [['test/payment/audit-retention.test.ts', 'nothing is deleted']] },
  },
  {
    name: 'a database that served the real provider starts in the sandbox',
    file: 'src/app/run-service.ts',
    find: 'if (remembered !== config.provider) {',
    replace: "if (remembered === '') {",
    noticedBy: { tests: [['test/process/main.test.ts', 'T46']] },
  },
]
