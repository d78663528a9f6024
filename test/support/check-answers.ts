import { checkAnswers } from '../../src/http/json-body.ts'

// Every answer of a listener that a test starts in its own process is checked against the schema of its route.
checkAnswers()
