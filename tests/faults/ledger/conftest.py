"""The session on Spark that the ledger's shorter tests have too."""

from tests.integration.ledger.conftest import spark as spark
