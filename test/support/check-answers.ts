import { checkAnswers } from '../../src/http/answer-serializer.ts'

// Every answer of a listener that a test starts in its own process is checked against the schema of its route.
checkAnswers()
